"""Remedies of partitions by event time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from rs_assets import EventTimePartitions, SessionWindow, Time
from rs_assets.runtime.recorded.partitions import partitions_of
from tests.topology.followed_programs import Case, begin, hits

PARTITIONS = "connectors/delta/files/event_partitions.py::EventTimePartitions.__post_init__"
CLOCKS = "connectors/delta/files/event_partitions.py::EventTimePartitions._check_clocks"
SINK = "connectors/delta/nodes.py::DeltaSink._check_partitions"
HOURS = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(10))


def made(unit: Any = "hour", field: Any = "ts", **settings: Any) -> EventTimePartitions:
    return EventTimePartitions(unit, field, date(2026, 1, 1), **settings)


def written(**how: Any) -> Any:
    return hits().to_delta("t", **{"partitions": HOURS, **how}).build()


def with_hour(**renamed: str) -> Any:
    rows = begin("hours").from_file("a.jsonl", schema="hour int, ts timestamp")
    rows = rows.with_fields(**renamed).select_fields(*renamed, "ts") if renamed else rows
    return rows.to_delta("t", partitions=HOURS).build()


def sessions(field: str) -> Any:
    of_five = hits().window(SessionWindow.of(Time.minutes(5), "ts")).count("n")
    return of_five.to_delta("t", partitions=EventTimePartitions.hourly(field, since="2026-01-01")).build()


CASES = [
    Case(PARTITIONS, lambda: made("week"), "use hourly(), daily() or monthly()", lambda: HOURS),
    Case(PARTITIONS, lambda: made(field=3), "name it: 'start_time'", lambda: made(field="start_time")),
    Case(
        "common/zones.py::checked_zone",
        lambda: made(zone="CEST"),
        "name one as 'Europe/Berlin'",
        lambda: made(zone="Europe/Berlin"),
    ),
    Case(CLOCKS, lambda: made(zone="Australia/Lord_Howe"), "use zone='UTC'", lambda: made(zone="UTC")),
    Case(PARTITIONS, lambda: made(settle=5), "settle=Time.minutes(10)", lambda: made(settle=Time.minutes(10))),
    Case(
        "connectors/delta/files/event_partitions.py::EventTimePartitions.parse",
        lambda: HOURS.parse("yesterday"),
        "name one as '2026-01-01-00:00'",
        lambda: HOURS.parse("2026-01-01-00:00"),
    ),
    Case(
        "connectors/delta/files/event_partitions.py::_date",
        lambda: EventTimePartitions.daily("ts", since="today"),
        "since='2026-01-01'",
        lambda: EventTimePartitions.daily("ts", since="2026-01-01").value_of(datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    Case(
        "connectors/delta/files/event_partitions.py::EventTimePartitions._check_until",
        lambda: made(until=date(2025, 12, 31)),
        "until= is the last day: a date from since= on, or leave it out",
        lambda: (made(until=date(2026, 1, 1)), made()),
    ),
    Case(
        SINK,
        lambda: written(partitions="country"),
        "partition_by=['country'] for fields of the rows",
        lambda: written(partitions=None, partition_by=["page"]),
    ),
    Case(
        SINK,
        lambda: written(mode="history", keys=["page"]),
        "leave partitions= out, or use partition_by=",
        lambda: written(mode="history", keys=["page"], partitions=None),
    ),
    Case(
        SINK,
        lambda: written(mode="upsert", keys=["page"]),
        "add 'ts' to its keys",
        lambda: written(mode="upsert", keys=["page", "ts"]),
    ),
    Case(SINK, lambda: written(partition_by=["hour"]), "leave it out of partition_by", written),
    Case(
        "connectors/messages.py::partition_taken",
        with_hour,
        "rename the field: select_fields() and with_fields() before the sink",
        lambda: with_hour(of_day="hour"),
    ),
    Case(
        "runtime/recorded/partitions.py::parted",
        lambda: partitions_of(written(partitions=None).topology),
        "to_delta(..., partitions=EventTimePartitions.hourly('start_time', since='2026-01-01'))",
        lambda: partitions_of(written().topology),
    ),
    Case(
        "topology/closing.py::_closing",
        lambda: written(partitions=made()),
        "settle=Time.minutes(10): a partition closes when the table has a row that much later",
        lambda: written(partitions=made(settle=Time.minutes(10))),
    ),
    Case(
        "topology/targets.py::check_targets",
        lambda: hits().to_delta("t", name="a", partitions=HOURS).to_delta("t", name="b", partitions=HOURS).build(),
        "give each its own target",
        lambda: hits().to_delta("t", name="a", partitions=HOURS).to_delta("u", name="b", partitions=HOURS).build(),
    ),
    Case(
        "topology/closing.py::_never",
        lambda: sessions("start_time"),
        "of a session 'end_time'",
        lambda: sessions("end_time"),
    ),
]
