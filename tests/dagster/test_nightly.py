"""The schedule of the proofs, after nights in which Dagster's daemon was away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dagster import DagsterInstance, build_schedule_context

from rs_assets import EventTimePartitions, MemoryChannel, StreamBuilder, Time, build_definitions


@pytest.fixture(scope="module")
def schedule():
    rows = StreamBuilder.data_stream("web", "night").from_memory(MemoryChannel(schema="id bigint, ts timestamp"))
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(10))
    definitions = build_definitions([rows.to_delta("kept", partitions=hours).build()])
    return definitions.get_repository_def().get_schedule_def("web_night_nightly_proof")


@pytest.mark.parametrize(("nights", "runs"), [(0, 1), (1, 0), (4, 0)])
def test_only_the_newest_night_is_proved(schedule, nights, runs):
    due = datetime.now(UTC) - timedelta(hours=5, days=nights)
    with DagsterInstance.ephemeral() as instance:
        asked = schedule.evaluate_tick(build_schedule_context(instance=instance, scheduled_execution_time=due))
    assert len(asked.run_requests or ()) == runs
    assert (asked.skip_message == "a later night has passed") == (runs == 0)
