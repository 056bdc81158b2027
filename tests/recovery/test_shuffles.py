"""Durable shuffles between queries that are saved and go back: every row comes to the outputs once."""

import json
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import Dimension, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, SinkError
from rs_assets.operators.dimension.notes import DimensionNotes, forget_repeating
from rs_assets.operators.shuffle.once import OnceWriter
from rs_assets.recovery import rollback_marker as returning
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.run import run as running
from rs_assets.runtime.upkeep import savepoints
from rs_assets.runtime.upkeep.savepoints import fork, restore, rewind, savepoint
from tests.crash import Crash

SCHEMA = "page string, n bigint, ts timestamp"


def record(number):
    return {"page": f"p{number % 3}", "n": number, "ts": f"2024-01-01T00:{number // 60:02d}:{number % 60:02d}Z"}


class World:
    """Rows, and the sums of windows behind a shuffle; with `longer` those of windows behind another one.

    Windows of 20 seconds, a record a second: the sum of each is known from its start alone.
    """

    def __init__(self, options, folder, *, longer=False):
        self.options, self.folder, self.rows, self.longer = options, folder, 0, longer
        self.through = {"strategy": "delta"}
        (folder / "in").mkdir()

    def pipeline(self, job="way"):
        stream = StreamBuilder.data_stream("shop", job).from_file(self.folder / "in", schema=SCHEMA)
        stream.to_delta(self.table(job, "all"), name="all")
        rows = stream.shuffle(2, keys=["page"], name="spread", **self.through)
        if self.longer:
            short = rows.window(TumblingWindow.of(Time.seconds(5), "ts"), name="short").group_by("page").sum("n", "n")
            rows = short.water_mark(Time.seconds(2)).to_data_stream().shuffle(1, strategy="delta", name="again")
            rows = rows.with_fields(ts="start_time")
        sums = rows.window(TumblingWindow.of(Time.seconds(20), "ts"), name="long").sum("n", "total")
        return sums.water_mark(Time.seconds(2)).to_data_stream().to_delta(self.table(job, "sums"), name="sums").build()

    def table(self, job, name):
        return str(self.folder / "out" / job / name)

    def grow(self, rows=20):
        text = "".join(json.dumps(record(n)) + "\n" for n in range(self.rows, self.rows + rows))
        self.rows += rows
        hidden = self.folder / ".hidden"
        hidden.write_text(text)
        hidden.rename(self.folder / "in" / f"{self.rows:05d}.jsonl")

    def run(self, rows=20, job="way", **how):
        if rows:
            self.grow(rows)
        return self.pipeline(job).run(replace(self.options, **how), finish=False)

    def held(self, job="way"):
        """All rows, and the windows that are closed, by the second that they begin with."""
        tables = [self.table(job, name) for name in ("all", "sums")]
        rows, sums = ([] if not Path(t).exists() else DeltaTable(t).to_pyarrow_table().to_pylist() for t in tables)
        seconds = [(row["start_time"].minute * 60 + row["start_time"].second, row["total"]) for row in sums]
        return sorted(row["n"] for row in rows), sorted(seconds)

    def check(self):
        """Every row is there once, and every window that must be closed, with all of its rows."""
        rows, sums = self.held()
        assert rows == list(range(self.rows))
        closed = max(0, (self.rows - (10 if self.longer else 3)) // 20)
        assert sums == [(w * 20, sum(range(w * 20, w * 20 + 20))) for w in range(closed)]

    @property
    def topology(self):
        return self.pipeline().topology

    def back(self, batch, step):
        return rewind(self.topology, batch, self.options, step=step)


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


def test_a_shuffle_goes_back_and_forward_with_the_queries_on_both_sides(world):
    world.run(30)
    savepoint(world.topology, world.options)
    saved = world.held()
    world.run(30)
    world.check()
    restore(world.topology, world.options)
    assert world.held() == saved
    world.run(0)
    world.check()
    told = world.back(0, "file")
    assert "file to batch 0, long to batch 1, from then on generation 3" in told
    assert world.held() == saved
    world.run(10)
    world.check()


@pytest.mark.long
def test_a_chain_of_shuffles_goes_back_wherever_it_is_cut(options, tmp_path):
    world = World(options, tmp_path, longer=True)
    for _ in range(3):
        world.run()
    savepoint(world.topology, world.options)
    saved = world.held()
    world.run()
    restore(world.topology, world.options)
    assert world.held() == saved
    world.run()
    world.check()
    # Its rows of before the savepoint are no part of that, and so are those that they were made of: who read them does.
    with pytest.raises(CheckpointError, match="are gone from the shuffle") as refused:
        world.back(1, "long")
    assert "rs-assets rewind shop.way --step file --to 1" in refused.value.remedy
    world.back(1, "file")
    for batch, step in ((None, ""), (2, "file"), (3, "long"), (4, "short")):
        if batch is not None:
            world.back(batch, step)
        world.run(0)
        world.check()
        world.run()
        world.check()


def test_a_savepoint_has_no_reader_beyond_its_writer(world, monkeypatch):
    """The writer is cut off behind its commit: the reader has the rows, and Spark does not know of the batch."""
    world.run(30)
    world.grow(30)
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=True, name="spread_write")
        _fails(world.pipeline().start(world.options), "crash behind")
    ahead = world.held()
    savepoint(world.topology, world.options)
    world.run(10)
    world.check()
    restore(world.topology, world.options)
    assert set(world.held()[0]) <= set(ahead[0])
    world.run(0)
    world.check()


@pytest.mark.long
def test_savepoints_of_a_pipeline_that_runs_are_cuts(options, tmp_path):
    world = World(replace(options, interval=timedelta(milliseconds=20)), tmp_path, longer=True)
    world.run()
    started = world.pipeline().start(world.options)
    taken = []
    try:
        for _ in range(4):
            for _ in range(3):
                world.grow(7)
                threading.Event().wait(0.3)
            taken.append(savepoint(world.topology, world.options))
    finally:
        started.stop()
    for saved in (taken[1], taken[3], taken[0]):
        restore(world.topology, world.options, savepoint_id=saved.id)
        world.run(0)
        world.check()


@pytest.mark.long
def test_a_fork_and_another_home_have_the_rows_that_wait_in_a_shuffle(world, driver, tmp_path):
    world.options = replace(world.options, savepoints=SavepointPolicy(uri=str(tmp_path / "kept")))
    world.run(30)
    with pytest.MonkeyPatch.context() as patched:
        # The reader has not read what waits.
        patched.setattr(running, "until_caught_up", _writers_only)
        world.run(30)
    savepoint(world.topology, world.options)
    saved = world.held()
    assert saved[1] == [(0, 190)]
    fork(world.pipeline("other").topology, ("shop", "way"), world.options)
    world.run(0, "other")
    assert world.held("other") == ([], [(20, sum(range(20, 40)))])
    shutil.rmtree(world.options.home.job("shop", "way"))
    world.run(0)
    world.check()
    world.options = replace(world.options, home=Home(tmp_path / "new"))
    restore(world.topology, world.options)
    world.run(10)
    world.check()


UNTIL_CAUGHT_UP = running.until_caught_up


def _writers_only(session, queries, stop):
    UNTIL_CAUGHT_UP(session, [query for query in queries if query.plan.name == "file"], stop)


def test_a_query_that_repeats_nothing_any_more_keeps_its_versions(tmp_path):
    notes = DimensionNotes(tmp_path, again=2, plans={2: {"spread": "5"}})
    notes.note(1, {"tiers": "v1"})
    forget_repeating(tmp_path)
    found = DimensionNotes.load(tmp_path)
    assert (found.again, found.plans, found.of(1)) == (-1, {}, {"tiers": "v1"})


class Looked:
    """Rows that are looked up behind a shuffle: `run(tier)` adds one, and lets it find `tier`."""

    def __init__(self, options, folder):
        self.options, self.folder, self.rows = options, folder, 0
        (folder / "in").mkdir()

    def pipeline(self):
        stream = StreamBuilder.data_stream("shop", "looked").from_file(self.folder / "in", schema="n bigint, k string")
        tiers = Dimension.from_file(self.folder / "tiers.jsonl", schema="k string, tier string")
        spread = stream.shuffle(1, strategy="delta", name="spread")
        return spread.dim_join(tiers, on="k", name="tiers").to_delta(str(self.folder / "out"), name="out").build()

    def run(self, tier):
        (self.folder / "new.jsonl").write_text(json.dumps({"k": "a", "tier": tier}) + "\n")
        (self.folder / "new.jsonl").rename(self.folder / "tiers.jsonl")
        (self.folder / "in" / f"{self.rows}.jsonl").write_text(json.dumps({"n": self.rows, "k": "a"}) + "\n")
        self.rows += 1
        self.pipeline().run(self.options, finish=False)
        rows = DeltaTable(self.folder / "out").to_pyarrow_table().to_pylist()
        return [row["tier"] for row in sorted(rows, key=lambda row: row["n"])]

    def back(self, step, batch):
        rewind(self.pipeline().topology, batch, self.options, step=step)


@pytest.mark.long
def test_a_reader_with_a_dimension_reads_what_a_writer_that_went_back_writes_again(options, tmp_path):
    """What it read before stands in other versions of the table now, or in none."""
    world = Looked(options, tmp_path)
    assert [world.run(tier) for tier in "abc"][-1] == ["a", "b", "c"]
    world.back("file", 0)
    assert world.run("d") == ["a", "d", "d", "d"]
    world.back("spread", 0)
    world.back("file", 1)
    assert world.run("e") == ["a", "e", "e", "e", "e"]


def test_a_return_that_was_cut_off_is_ended_by_another(world, monkeypatch):
    world.run(30)
    savepoint(world.topology, world.options)
    saved = world.held()
    world.run(30)
    for place in ("begin_tables", "rewind_queries"):
        with monkeypatch.context() as patched:
            patched.setattr(savepoints, place, _cut_off)
            with pytest.raises(KeyboardInterrupt):
                world.back(0, "file")
        with pytest.raises(CheckpointError, match="interrupted"):
            world.run(0)
    restore(world.topology, world.options)
    assert world.held() == saved
    assert returning.under_way(world.options.home.job("shop", "way")) is None
    world.run(10)
    world.check()


def _cut_off(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("strategy", "planned"),
    [
        ("delta", False),
        *(pytest.param(*each, marks=pytest.mark.long) for each in [("delta", True), ("kafka", False), ("kafka", True)]),
    ],
)
def test_a_writer_that_was_killed_in_its_first_batch_goes_on(world, request, monkeypatch, strategy, planned):
    """Its reader has committed an empty batch before."""
    if strategy == "kafka":
        servers = request.getfixturevalue("broker").bootstrap_servers
        world.through = {"strategy": "kafka", "bootstrap_servers": servers}
    seen = threading.Event()
    original = OnceWriter.stage

    def stage(sink, batch, mark):
        staged = original(sink, batch, mark)
        assert seen.wait(120)
        return replace(staged, commit=_killed)

    if planned:
        world.grow(30)
    job = world.options.home.job("shop", "way")
    with monkeypatch.context() as patched:
        patched.setattr(OnceWriter, "stage", stage)
        started = world.pipeline().start(world.options)
        commit = job / "g0001" / "long" / "checkpoint" / "commits" / "0"
        _until(commit.exists)
        seen.set()
        if planned:
            _fails(started, "killed")
        else:
            started.stop()
    assert (job / "g0001" / "file" / "checkpoint" / "offsets" / "0").exists() == planned
    world.run(0 if planned else 30)
    world.check()


def _fails(started, match):
    with pytest.raises(SinkError, match=match):
        started.await_termination()
    with suppress(SinkError):
        started.stop()


def _killed():
    raise SinkError("killed")


def _until(true, seconds=120):
    waiting = threading.Event()
    for _ in range(seconds * 20):
        if true():
            return
        waiting.wait(0.05)
    raise AssertionError("it did not come")
