"""Savepoints and the ways back: the output is always that of one batch over all input."""

import shutil
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.checkpoint_rows import checkpoints_of, undone
from rs_assets.dagster.place import Place
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError, SinkError
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.upkeep.rewound import refuse_batch
from rs_assets.runtime.upkeep.savepoints import fork, restore, rewind, savepoint

TRAVEL, REWOUND = "rs_assets.runtime.upkeep.savepoints", "rs_assets.runtime.upkeep.rewound"
SCHEMA = "page string, n bigint, ts timestamp"


def lines(first, last):
    return "".join(
        f'{{"page":"p{n % 3}","n":{n},"ts":"2024-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z"}}\n'
        for n in range(first, last)
    )


class World:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.log = folder / "in.jsonl"
        self.log.write_text("")
        self.rows = 0

    def grow(self, rows):
        with self.log.open("a") as log:
            log.write(lines(self.rows, self.rows + rows))
        self.rows += rows

    def pipeline(self, job="trip", sink="delta"):
        stream = StreamBuilder.data_stream("shop", job).from_file(self.log, schema=SCHEMA, tail=True)
        stream = (
            stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("rows").sum("n", "total")
        )
        stream = stream.to_data_stream()
        return (stream.to_delta(job) if sink == "delta" else stream.to_file(self.folder / job)).build()

    def run(self, rows=0, job="trip", **how):
        self.grow(rows)
        finish = how.pop("finish", None)
        sink = how.pop("sink", "delta")
        return self.pipeline(job, sink).run(replace(self.options, **how), finish=finish)

    def result(self, job="trip"):
        table = DeltaTable(self.options.home.table("shop", job)).to_pyarrow_table().to_pylist()
        return sorted((row["page"], row["start_time"], row["rows"], row["total"]) for row in table)

    def expected(self):
        if not hasattr(self, "_plain"):
            self.run(job="plain", finish=True)
        return self.result("plain")

    @property
    def home(self):
        return self.options.home.job("shop", "trip")


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


def test_a_restored_pipeline_reads_again_what_came_behind_the_savepoint(world):
    world.run(40)
    taken = savepoint(world.pipeline().topology, world.options, note="before the change")
    world.run(40)
    world.run(40)
    restore(world.pipeline().topology, world.options, savepoint_id=taken.id)
    report = world.run(5, finish=True)
    assert (report.rows_in, report.generation) == (85, 2)
    assert world.result() == world.expected()
    assert [row["kind"] for row in Catalog(world.options.home.catalog).rows("operations")] == ["restore"]


def test_a_second_savepoint_copies_only_what_changed(world):
    world.run(40)
    first = savepoint(world.pipeline().topology, world.options)
    again = savepoint(world.pipeline().topology, world.options)
    assert 0 < first.bytes_new <= first.bytes_total
    assert again.bytes_new == 0
    assert len(Catalog(world.options.home.catalog).rows("snapshots")) == 2


@pytest.mark.parametrize(
    ("back", "rows"), [(2, 80), pytest.param(0, 120, marks=pytest.mark.long)], ids=["third", "first"]
)
def test_a_rewound_pipeline_gives_the_same_output(world, back, rows):
    for _ in range(4):
        # Each run has two batches: the rows, and the windows that they close.
        world.run(40)
    rewind(world.pipeline().topology, back, world.options)
    assert world.run().rows_in == rows
    world.run(5, finish=True)
    assert world.result() == world.expected()


@pytest.mark.long
def test_a_pipeline_can_be_rewound_again_and_to_a_batch_before_its_first_rows(world):
    for _ in range(4):
        world.run(7)
    for back in (2, 1, 0):
        rewind(world.pipeline().topology, back, world.options)
        world.run(3)
    world.run(finish=True)
    assert world.result() == world.expected()


@pytest.mark.long
def test_a_rewind_takes_a_finish_back(world):
    world.run(40)
    world.run(40, finish=True)
    rewind(world.pipeline().topology, 0, world.options)
    world.run(40)
    world.run(finish=True)
    assert world.result() == world.expected()


def test_a_rewind_that_is_cut_off_between_sink_and_checkpoint_is_refused_until_it_is_done(world, monkeypatch):
    for _ in range(4):
        world.run(40)
    with monkeypatch.context() as crash:
        crash.setattr(
            f"{REWOUND}._rewound_copy",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            rewind(world.pipeline().topology, 1, world.options)
    with pytest.raises(CheckpointError, match="rewind the pipeline"):
        world.run()
    rewind(world.pipeline().topology, 1, world.options)
    world.run(5, finish=True)
    assert world.result() == world.expected()


@pytest.mark.parametrize("batch", [1, 0], ids=["behind the first rows", "before the first rows"])
def test_files_are_rewound_like_tables(world, batch):
    for _ in range(3):
        world.run(40, sink="files")
    # Batch 0 reads rows and fires no window: the sink has nothing of it.
    for rows in (7, 5):
        rewind(world.pipeline(sink="files").topology, batch, world.options)
        world.run(rows, sink="files")
    world.run(sink="files", finish=True)
    written = [line for f in (world.folder / "trip").glob("batch=*/*.json") for line in f.read_text().splitlines()]
    assert len(written) == len(set(written)) == len(world.expected())


@pytest.mark.long
def test_rows_of_others_are_not_undone(world):
    for _ in range(3):
        world.run(40)
    table = world.options.home.table("shop", "trip")
    write_deltalake(table, DeltaTable(table).to_pyarrow_table().slice(0, 1), mode="append")
    with pytest.raises(SinkError, match="another writer wrote version"):
        rewind(world.pipeline().topology, 0, world.options)
    assert world.run(3).generation == 1


def test_a_pipeline_without_a_batch_cannot_be_rewound(world, tmp_path):
    (plan,) = plan_queries(world.pipeline().topology)
    with pytest.raises(CheckpointError, match="cannot be rewound to batch 0") as refused:
        refuse_batch(plan, tmp_path, 0)
    assert refused.value.remedy == "there is no batch to go back to; restore a savepoint to go further back"


@pytest.mark.parametrize("batch", [-1, 9])
def test_a_batch_that_is_not_there_is_refused_with_those_that_are(world, batch):
    world.run(40)
    world.run(40)
    with pytest.raises(CheckpointError, match="possible are: 0 to 3"):
        rewind(world.pipeline().topology, batch, world.options)
    with pytest.raises(ConfigurationError, match="name one of: window"):
        rewind(world.pipeline().topology, 0, world.options, step="other")


def test_batches_that_were_undone_are_shown_as_such(world):
    for _ in range(2):
        world.run(40)
    rewind(world.pipeline().topology, 1, world.options)
    world.run(5)
    topology, place = world.pipeline().topology, Place(home=world.options.home)
    rows = checkpoints_of(topology, place, batches=20)
    marked = [
        (row.generation, row.batch_id, gone) for row, gone in zip(rows, undone(topology, place, rows), strict=True)
    ]
    assert marked[:4] == [(1, 0, False), (1, 1, False), (1, 2, True), (1, 3, True)]
    assert {(generation, gone) for generation, _, gone in marked[4:]} == {(2, False)}


def test_a_fork_goes_on_by_itself(world):
    world.run(40)
    savepoint(world.pipeline().topology, world.options)
    fork(world.pipeline("branch").topology, ("shop", "trip"), world.options)
    world.run(40)
    report = world.run(job="branch", finish=True)
    assert report.rows_in == 40
    world.run(finish=True)
    closed = set(world.result()) - set(world.result("branch"))
    assert len(world.result("branch")) + len(closed) == len(world.expected())
    with pytest.raises(CheckpointError, match="has run already"):
        fork(world.pipeline("branch").topology, ("shop", "trip"), world.options)


def test_a_fork_of_a_pipeline_without_state_goes_on_behind_the_savepoint(world):
    def copy(job):
        stream = StreamBuilder.data_stream("shop", job).from_file(world.log, schema=SCHEMA, tail=True)
        return stream.to_delta(f"{job}_rows", name="rows").build()

    world.grow(5)
    copy("first").run(world.options)
    savepoint(copy("first").topology, world.options)
    fork(copy("second").topology, ("shop", "first"), world.options)
    world.grow(3)
    assert copy("second").run(world.options).rows_in == 3


def test_a_lost_disk_is_recovered_from_the_newest_savepoint(world):
    policy = SavepointPolicy(at_end=True)
    world.run(40, savepoints=policy)
    world.run(40)
    shutil.rmtree(world.home)
    report = world.run(5, finish=True)
    assert report.rows_in == 45
    assert "savepoint 2" in report.recovered_from
    assert world.result() == world.expected()


def test_a_home_that_was_moved_goes_on_with_the_state_of_a_processor(world, tmp_path):
    def windows():
        stream = StreamBuilder.data_stream("shop", "trip").from_file(world.log, schema=SCHEMA, tail=True)
        window = (
            stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("rows").sum("n", "total")
        )
        fired = window.emit_before(Time.seconds(4)).to_data_stream().filter("final")
        return fired.to_delta(str(tmp_path / "out")).build()

    world.grow(33)
    windows().run(world.options)
    moved = Home(tmp_path / "elsewhere")
    Path(world.options.home.root).rename(moved.root)
    world.grow(30)
    windows().run(replace(world.options, home=moved), finish=True)
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    held = sorted((row["page"], row["start_time"], row["rows"], row["total"]) for row in rows)
    assert held == world.expected()


class Killed(ExitStack):
    """One that undoes nothing."""

    def __exit__(self, *_):
        return None


def _cut(*_, **__):
    raise KeyboardInterrupt


def test_a_recovery_that_is_killed_anywhere_is_done_again_by_the_next_start(world, monkeypatch):
    world.run(40, savepoints=SavepointPolicy(at_end=True))
    world.run(40)
    shutil.rmtree(world.home)
    exchange = import_module("rs_assets.recovery.savepoints.restore")
    going_back = import_module(TRAVEL)
    points = ((exchange, "_move"), (manifests, "save"), (going_back, "relocate"), (going_back.returning, "finish"))
    monkeypatch.setattr(exchange, "ExitStack", Killed)
    for place, name in points:
        with monkeypatch.context() as crash:
            crash.setattr(place, name, _cut)
            with pytest.raises(KeyboardInterrupt):
                world.run()
    report = world.run(5, finish=True)
    assert report.rows_in == 45
    assert "savepoint" in report.recovered_from
    assert world.result() == world.expected()


@pytest.mark.parametrize("point", ["session.JobSession.save", "opening._register"])
def test_a_first_start_that_is_killed_before_its_first_row_is_no_lost_checkpoint(world, monkeypatch, point):
    with monkeypatch.context() as crash:
        crash.setattr(f"rs_assets.runtime.job.{point}", _cut)
        with pytest.raises(KeyboardInterrupt):
            world.run(10)
    assert world.run(5, finish=True).rows_in == 15
    assert world.result() == world.expected()


def test_a_lost_disk_without_remote_copies_is_refused(world):
    local = SavepointPolicy(at_end=True, local_storage_only=True)
    world.run(40, savepoints=local)
    shutil.rmtree(world.home)
    with pytest.raises(CheckpointError, match="is gone"):
        world.run(savepoints=local)
    assert world.run(savepoints=local, new_generation=True).generation == 2


def test_a_damaged_savepoint_is_not_restored_and_nothing_changes(world):
    world.run(40)
    savepoint(world.pipeline().topology, world.options)
    objects = [f for f in (Path(world.options.home.savepoints) / "objects").rglob("*") if f.is_file()]
    for file in objects:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    before = manifests.load(world.home)
    with pytest.raises(CheckpointError):
        restore(world.pipeline().topology, world.options)
    assert manifests.load(world.home) == before


@pytest.mark.long
def test_savepoints_are_taken_while_a_pipeline_runs(world):
    world.grow(40)
    with world.pipeline().start(world.options) as running:
        with pytest.raises(PipelineBusyError):
            rewind(world.pipeline().topology, 0, replace(world.options, run_id="other"))
        while running.session.report().batches == 0:
            running.await_termination(0.2)
        running.session.options.driver.call(lambda _: [q.process_all() for q in running.session.queries.values()])
        taken = running.savepoint("live")
    world.run(40)
    restore(world.pipeline().topology, world.options, savepoint_id=taken.id)
    world.run(5, finish=True)
    assert world.result() == world.expected()


def test_a_savepoint_that_fails_at_the_end_is_told_of_and_does_not_undo_the_run(world, monkeypatch):
    def fail(*_, **__):
        raise CheckpointError("the store is away")

    monkeypatch.setattr("rs_assets.runtime.job.ending.savepoint", fail)
    report = world.run(40, savepoints=SavepointPolicy(at_end=True))
    assert report.rows_in == 40
    assert report.warnings == ("no savepoint was taken: the store is away",)
