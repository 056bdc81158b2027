"""A chain of windows in one query on the ways that state takes: snapshot, preview, savepoint, rewind, rescale."""

import json
import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import HoppingWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError, TopologyChangedError
from rs_assets.runtime.identity import log_of
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from tests.crash import Crash
from tests.operators.model import at, emitted_slices, sliced
from tests.recovery.join_world import AsOfWorld, ByProcessorWorld, EarlyWorld, JoinWorld
from tests.recovery.ordered_world import (
    CountedWorld,
    GlobalWorld,
    OverWorld,
    RangeWorld,
    RankedWorld,
    SlidingWorld,
)

SCHEMA = "key string, ts timestamp"
ROWS = [{"key": "abc"[n % 3], "ts": at(2 * n)} for n in range(120)]


class World:
    """A followed file, and a pipeline that counts in hops and counts those by the minute."""

    def __init__(self, options, folder):
        self.options, self.log, self.read = options, folder / "in.jsonl", 0
        self.policy, self.both, self.ranks = "fail", False, False
        self.log.write_text("")

    def pipeline(self, job="chain", size=60, hop=10):
        job_stream = StreamBuilder.data_stream("shop", job)
        source = job_stream.from_file(self.log, schema=SCHEMA, tail=True, bad_records=self.policy)
        hops = source.window(HoppingWindow.of(Time.seconds(20), Time.seconds(hop), "ts"), name="hops").group_by("key")
        counts = hops.count("n").water_mark(Time.seconds(5)).to_data_stream().filter("n > 0")
        counts = counts.with_fields(at="start_time")
        if self.both:
            counts.to_delta(f"{job}_hops")
        if self.ranks:
            window = TumblingWindow.of(Time.seconds(size), "start_time", offset=Time.seconds(20))
            top = counts.window(window, name="minutes").top_n(2, by=["n", "key"], fields=["at"])
            return top.aggregate(parts="count(*)", all="sum(n)").to_data_stream().to_delta(job).build()
        minutes = counts.window(TumblingWindow.of(Time.seconds(size), "start_time"), name="minutes").group_by("key")
        return minutes.count("parts").sum("n").to_data_stream().to_delta(job).build()

    def run(self, rows=0, job="chain", extra=(), **how):
        with self.log.open("a") as log:
            for row in [*ROWS[self.read : self.read + rows], *extra]:
                log.write(json.dumps({**row, "ts": row["ts"].isoformat()}) + "\n")
        self.read += rows
        return self.pipeline(job).run(self.options, **how)

    def log_of_query(self):
        folder = self.options.home.job("shop", "chain")
        return log_of(manifests.load(folder), plan_queries(self.pipeline().topology)[0], folder)

    def result(self, job="chain"):
        table = DeltaTable(self.options.home.table("shop", job)).to_pyarrow_table().to_pylist()
        if self.ranks:
            names = ("start_time", "end_time", "rank", "n", "key", "at", "parts", "all")
            return sorted(tuple(row[name] for name in names) for row in table)
        return sorted((row["key"], row["start_time"], row["end_time"], row["parts"], row["n"]) for row in table)

    def expected(self):
        hops, _, _ = emitted_slices([ROWS[: self.read]], size=20, slide=10, delay=5)
        parts = [{"key": key, "ts": start, "n": len(rows)} for (key, start, _), rows in hops.items()]
        if self.ranks:
            return sorted(self.ranked([{**part, "by": part["key"], "key": None} for part in parts]))
        minutes = sliced(parts, size=60, slide=60)
        return sorted((*group, len(rows), sum(row["n"] for row in rows)) for group, rows in minutes.items())

    def ranked(self, parts):
        """The rows of the two greatest counts of each minute."""
        for (_, start, end), rows in sliced(parts, size=60, slide=60, offset=20).items():
            best = sorted(((row["n"], row["by"], row["ts"]) for row in rows), reverse=True)[:2]
            for rank, row in enumerate(best, start=1):
                yield (start, end, rank, *row, len(rows), sum(each["n"] for each in rows))


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


@pytest.fixture(
    params=[
        World,
        EarlyWorld,
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (JoinWorld, AsOfWorld, ByProcessorWorld, CountedWorld, SlidingWorld, RankedWorld)
        ),
    ]
)
def any_world(request, options, tmp_path):
    return request.param(options, tmp_path)


def test_the_state_of_each_step_is_a_table_and_a_preview_is_what_it_fires_later(world):
    world.run(60)
    topology = world.pipeline().topology
    snapshots = snapshot_state(topology, world.options)
    assert {taken.path for taken in snapshots} == {
        state_path(topology, name, world.options.home) for name in ("hops", "minutes")
    }
    assert min(taken.rows for taken in snapshots) > 0
    assert sum(taken.rows for taken in snapshots) == world.run().rows_open
    hops = preview(topology, "hops", world.options).to_pylist()
    minutes = preview(topology, "minutes", world.options).to_pylist()
    assert {tuple(row) for row in hops} == {("key", "n", "start_time", "end_time", "fire_time", "open")}
    world.run(finish=True)
    fired = {row[:3]: row[3:] for row in world.result()}
    # What waits in the first window is not yet in the second.
    for row in minutes:
        parts, n = fired[row["key"], row["start_time"], row["end_time"]]
        begun = [hop for hop in hops if row["start_time"] <= hop["start_time"] < row["end_time"]]
        waiting = [hop for hop in begun if hop["key"] == row["key"]]
        assert (row["parts"] + len(waiting), row["n"] + sum(hop["n"] for hop in waiting)) == (parts, n)
        # The last hop of a minute ends ten seconds behind it, and five more are waited for rows.
        assert row["fire_time"] - row["end_time"] == Time.seconds(15)
    assert world.result() == world.expected()


@pytest.mark.parametrize("ranks", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_savepoint_a_rewind_and_a_rescale_lead_to_the_same_rows(any_world, ranks):
    world = any_world
    world.ranks = ranks
    world.run(40)
    taken = world.pipeline().savepoint(world.options)
    world.run(30)
    world.pipeline().restore(world.options, savepoint_id=taken.id)
    world.run(20)
    assert world.pipeline().rescale(5, world.options).after == 5
    world.run(20)
    world.pipeline().rewind(world.log_of_query().last_committed() - 1, world.options)
    world.run(10)
    world.run(finish=True)
    assert world.result() == world.expected()
    assert not [finding for query in world.pipeline().verify(world.options) for finding in query.found]


@pytest.mark.parametrize(
    "of", [GlobalWorld, *(pytest.param(each, marks=pytest.mark.long) for each in (OverWorld, RangeWorld))]
)
def test_a_crash_between_the_ways_that_state_takes_changes_nothing(of, options, tmp_path, monkeypatch):
    world = of(options, tmp_path)
    world.run(40)
    taken = world.pipeline().savepoint(options)
    world.run(20)
    world.pipeline().restore(options, savepoint_id=taken.id)
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=True)
        with pytest.raises(RsError, match="crash"):
            world.run(20)
    assert world.pipeline().rescale(3, options).after == 3
    world.pipeline().rewind(world.log_of_query().last_committed() - 1, options)
    world.run(10, finish=True)
    assert world.result() == world.expected()


def test_state_of_one_step_that_is_gone_is_found_before_the_start(world):
    world.run(40)
    shutil.rmtree(world.log_of_query().folder / "state" / "1")
    with pytest.raises(CheckpointError, match="operator 1 has lost all its state"):
        world.run(10)


def test_state_is_not_kept_where_its_windows_lie_elsewhere(world):
    world.run(40)
    keep = replace(world.options, keep_state=True)
    with pytest.raises(TopologyChangedError, match=r"(?s)state of minutes was written with.*--reset-step minutes"):
        world.pipeline(hop=7).run(keep)
    # Any step of the chain names its state.
    world.pipeline(hop=7).run(replace(world.options, reset_steps=("hops",)))


def test_late_rows_are_letters_of_each_query_that_they_are_late_for(world):
    """Two queries may read the same rows in other batches, so that only one of them finds a row late."""
    world.policy = "dead_letter"
    world.run(1)
    world.run(60)
    world.both = True
    report = world.run(0, extra=[ROWS[0], ROWS[1]])
    late = {query.query: query.rows_late for query in report.queries}
    letters = DeltaTable(world.options.home.dead_letters).to_pyarrow_table().to_pylist()
    assert late == {"hops": 0, "minutes": 2}
    assert [(row["query"], row["step"]) for row in letters] == [("minutes", "hops")] * 2


def test_another_second_window_is_refused(world):
    world.run(40)
    with pytest.raises(TopologyChangedError, match=r"(?s)- window_aggregate minutes.*\+ window_aggregate minutes"):
        world.pipeline(size=120).run(world.options)
