"""Which dead letters may be redriven, and into which outputs: decided by the topology alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rs_assets import EventTimePartitions, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.dead_letters import redrive_on
from rs_assets.errors import TopologyError
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.redrive import output_of, refusing_whole
from rs_assets.topology.topology import Topology

HOURS = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))
BY_START = EventTimePartitions.hourly("start_time", since="2026-01-01")


def hits() -> DataStream:
    source = MemoryChannel(schema="id bigint, ms bigint, ts timestamp")
    return StreamBuilder.data_stream("again", "hits").from_memory(source, name="source")


def minutes(rows: DataStream) -> DataStream:
    window = TumblingWindow.of(Time.minutes(1), "ts")
    return rows.window(window, name="minutes").group_by("id").count("n").to_data_stream()


def test_refusing_whole_lists_the_steps_that_each_record_passes_once() -> None:
    stream = hits().map("id", "ms", name="mapped").filter("ms > 0", name="kept")
    stream = stream.expect("ms < 9", on_fail="dead_letter", name="usual")
    stream = stream.flat_map("explode(array(id, ms)) AS id", name="both").expect("id < 9", name="small")
    assert {*refusing_whole(stream.to_delta("out").build().topology)} >= {"source", "mapped", "kept", "usual", "both"}
    assert "small" not in refusing_whole(stream.to_delta("out").build().topology)


@pytest.mark.parametrize("step", ["explode(array(id, ms)) AS id", "posexplode_outer(array(id, ms)) AS (p, id)"])
def test_refusing_whole_does_not_trust_a_generator_in_a_select_list(step: str) -> None:
    stream = hits().map(step, name="both").expect("id < 9", on_fail="dead_letter", name="small")
    assert "small" not in refusing_whole(stream.to_delta("out").build().topology)


def test_refusing_whole_leaves_out_steps_on_one_of_several_ways() -> None:
    read = hits()
    usual = read.expect("ms < 9", on_fail="dead_letter", name="usual")
    usual.to_delta("one")
    topology = read.to_delta("two").build().topology
    assert refusing_whole(topology)[0] == "source"
    assert "usual" not in refusing_whole(topology)


def backfilled() -> Topology:
    return minutes(hits()).to_delta("out", partitions=BY_START).build().topology


def several() -> Topology:
    read = hits()
    read.filter("ms > 9").to_delta("slow")
    return read.to_delta("all").build().topology


REFUSED: list[tuple[Callable[[], Topology], str, str]] = [
    (several, "several outputs: .*_table", "dead-letters NAME --export"),
    (lambda: hits().to_memory(MemoryChannel()).build().topology, "only a Delta table", "dead-letters NAME --export"),
    (lambda: hits().to_delta("out", mode="upsert", keys="id").build().topology, "replace each other", "--export"),
    (lambda: minutes(hits()).to_delta("out").build().topology, "'minutes', whose state", "--new-generation"),
    (backfilled, "'minutes', whose state", "rs-assets backfill"),
    (lambda: hits().to_delta("out", partitions=HOURS).build().topology, "partitions by event time", "backfill"),
]


@pytest.mark.parametrize(("made", "what", "remedy"), REFUSED)
def test_output_that_cannot_take_rows_once_is_refused(made: Callable[[], Topology], what: str, remedy: str) -> None:
    with pytest.raises(TopologyError, match=what) as refused:
        output_of(made(), "source")
    assert remedy in refused.value.remedy


def test_output_of_appended_rows_without_state_takes_them() -> None:
    assert output_of(hits().filter("ms > 9").to_delta("out", name="out").build().topology, "source").name == "out"


@pytest.mark.parametrize(
    ("path", "redrives", "found"),
    [
        ({1: 9}, "1:1:3", 1),
        ({1: 2}, "1:1:3", None),
        ({1: 2, 2: 9}, "1:1:3 2:2:4", 2),
        ({1: 9}, "1:1:3 2:2:4", 1),
        ({}, "1:1:3", None),
    ],
)
def test_redrive_counts_as_long_as_its_batch_is_on_the_path(
    path: dict[int, int], redrives: str, found: int | None
) -> None:
    assert redrive_on(path, redrives) == found
