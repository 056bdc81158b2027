"""Whatever people do with rewinds and restores: the output is that of one batch over all input, or they are refused."""

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.sink import Staged
from rs_assets.errors import CheckpointError, RsError, SinkError, TopologyChangedError, TopologyError
from rs_assets.recovery import rollback_marker as returning
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.preflight import repair
from rs_assets.runtime.run.run import until_caught_up, wire_all
from rs_assets.runtime.upkeep.returns import QueryReturn, begun_with, matching, path_of
from rs_assets.runtime.upkeep.rewound import left_at, partitions_at
from rs_assets.runtime.upkeep.savepoints import restore, rewind, savepoint

REWOUND = "rs_assets.runtime.upkeep.rewound"
SCHEMA = "n bigint"


class World:
    """A pipeline that copies the files of folders to its sinks; a batch a run, and no Python in Spark's tasks."""

    def __init__(self, options, folder):
        self.options, self.folder, self.written = options, folder, 0
        for name in ("a", "b"):
            (folder / name).mkdir()

    def grow(self, rows=3, name="a"):
        lines = [f'{{"n":{n}}}\n' for n in range(self.written, self.written + rows)]
        (self.folder / name / f"{self.written:06}.json").write_text("".join(lines))
        self.written += rows

    def source(self, name="a", stream=None, **how):
        stream = stream or StreamBuilder.data_stream("shop", "trip")
        return stream.from_file(self.folder / name, schema=SCHEMA, name=name, **how)

    def pipeline(self):
        return self.source().to_delta("out", name="out").build()

    def run(self, pipeline=None, *, rows=3, **how):
        if rows:
            self.grow(rows)
        return (pipeline or self.pipeline()).run(replace(self.options, **how))

    @property
    def topology(self):
        return self.pipeline().topology

    @property
    def job(self):
        return self.options.home.job("shop", "trip")

    @property
    def table(self):
        return self.options.home.table("shop", "out")

    def result(self, table=None):
        return sorted(row["n"] for row in DeltaTable(table or self.table).to_pyarrow_table().to_pylist())

    def complete(self):
        return self.result() == list(range(self.written))


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


def test_a_pipeline_may_be_rewound_twice(world):
    for _ in range(4):
        world.run()
    rewind(world.topology, 2, world.options)
    rewind(world.topology, 1, world.options)
    assert world.result() == list(range(6))
    world.run()
    assert world.complete()


def test_a_pipeline_may_go_forward_again_to_a_later_savepoint(world):
    taken = []
    for _ in range(3):
        world.run()
        taken.append(savepoint(world.topology, world.options).id)
    restore(world.topology, world.options, savepoint_id=taken[0])
    world.run(rows=0)
    restore(world.topology, world.options, savepoint_id=taken[2])
    assert world.result() == list(range(9))
    rewind(world.topology, 0, world.options)
    restore(world.topology, world.options, savepoint_id=taken[1])
    assert world.result() == list(range(6))
    world.run()
    assert world.complete()


def test_rows_of_the_connector_inside_spark_go_back_too(world):
    for _ in range(2):
        world.run(connector="jvm")
    rewind(world.topology, 0, world.options)
    assert world.result() == [0, 1, 2]
    world.run(connector="jvm")
    assert world.complete()


class Stubborn:
    """A sink that remembers its batches and takes none back."""

    name = "stubborn"

    def __init__(self):
        self.marks = {}

    def location(self):
        return "nowhere"

    def committed(self, mark):
        return self.marks.get(mark.writer, -1) >= mark.batch_id

    def last_committed(self, mark):
        return self.marks.get(mark.writer, -1)

    def stage(self, batch, mark):
        rows = batch.toArrow().num_rows
        return Staged(lambda: self.marks.update({mark.writer: mark.batch_id}) or rows)

    def check_rewind(self, kept, begun, had=-1):
        if self.last_committed(kept) > kept.batch_id:
            raise SinkError("what was sent cannot be taken back")

    def rewind(self, kept, begun, had=-1):
        self.marks[begun.writer] = begun.batch_id
        return "had nothing to undo"


def test_no_sink_acts_when_one_of_them_cannot(world):
    stubborn = Stubborn()
    pipeline = world.source().to_delta("out", name="out").to(stubborn, name="stubborn").build()
    for _ in range(3):
        world.run(pipeline)
        if world.written == 3:
            savepoint(pipeline.topology, world.options)
    before = DeltaTable(world.table).version()
    with pytest.raises(SinkError, match="cannot be taken back"):
        rewind(pipeline.topology, 0, world.options)
    with pytest.raises(SinkError, match="cannot be taken back"):
        restore(pipeline.topology, world.options)
    assert DeltaTable(world.table).version() == before
    assert returning.under_way(world.job) is None
    world.run(pipeline)
    assert world.complete()


def test_a_sink_without_the_methods_keeps_its_pipeline_from_going_back(world):
    one_way = type(
        "OneWay", (), {n: getattr(Stubborn, n) for n in ("name", "location", "committed", "last_committed", "stage")}
    )
    sink = one_way()
    sink.marks = {}
    pipeline = world.source().to(sink).build()
    world.run(pipeline)
    world.run(pipeline)
    with pytest.raises(SinkError, match="'sink' cannot go back") as refused:
        rewind(pipeline.topology, 0, world.options)
    assert refused.value.remedy.startswith(
        "give it the methods of rs_assets.sinks.Rewinding, or begin a new generation"
    )
    both = type("Both", (one_way,), {n: getattr(Stubborn, n) for n in ("check_rewind", "rewind")})()
    both.marks = sink.marks
    rewind(world.source().to(both).build().topology, 1, world.options)
    world.options = replace(world.options, new_generation=True)
    world.run(pipeline)
    half = type("Half", (one_way,), {"rewind": Stubborn.rewind})
    with pytest.raises(TopologyError, match="has no check_rewind"):
        world.source().to(half())
    with pytest.raises(TopologyError, match="has no committed, last_committed, stage, location"):
        world.source().to(type("Bare", (), {"name": "bare"})())


def test_a_return_that_is_cut_off_is_ended_by_another_or_by_a_new_generation(world, monkeypatch):
    for _ in range(3):
        world.run()
    for back in (1, 0):
        with monkeypatch.context() as crash:
            crash.setattr(
                f"{REWOUND}._rewound_copy",
                lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
            )
            with pytest.raises(KeyboardInterrupt):
                rewind(world.topology, back, world.options)
        with pytest.raises(CheckpointError, match="was interrupted: a rewind"):
            world.run(rows=0)
    assert world.result() == [0, 1, 2]
    rewind(world.topology, 1, world.options)
    world.run()
    assert world.complete()
    with monkeypatch.context() as crash:
        crash.setattr(
            f"{REWOUND}._rewound_copy",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with suppress(KeyboardInterrupt):
            rewind(world.topology, 1, world.options)
    assert world.run(new_generation=True).generation == 6
    assert world.complete()


def test_a_table_that_was_restored_by_hand_is_refused_until_it_is_as_it_was(world):
    for _ in range(3):
        world.run()
    DeltaTable(world.table).restore(0)
    with pytest.raises(CheckpointError, match="sink_changed .*RESTORE by another writer in version 3"):
        world.run()
    DeltaTable(world.table).restore(2)
    world.run()
    assert world.complete()
    DeltaTable(world.table).delete()
    with pytest.raises(CheckpointError, match="sink_changed .*DELETE by another writer.*(?s:.*)repair accept_changes"):
        world.run(rows=0)
    rewind(world.topology, 3, world.options)
    report = world.run()
    assert world.complete()
    assert not report.warnings
    DeltaTable(world.table).delete("n = 4")
    assert any("DELETE by another writer" in warning for warning in world.run().warnings)
    DeltaTable(world.table).delete()
    assert repair(world.topology, "accept_changes", world.options) == ("a: the sink 'out' is accepted as it is",)
    world.run()
    assert world.result() == list(range(world.written - 3, world.written))


def killed(world):
    """A run that ends without writing anything down, as by SIGKILL."""
    session = opened(world.topology, world.options)
    try:
        session.options.driver.call(lambda spark: wire_all(session, spark))
        until_caught_up(session, list(session.queries.values()), None)
    finally:
        session.close()


def test_a_table_that_was_lost_behind_a_run_that_was_killed_is_missed(world):
    world.grow()
    killed(world)
    copy = shutil.copytree(world.table, world.folder / "copy")
    world.grow()
    killed(world)
    assert world.complete()
    aside = Path(world.table).rename(world.folder / "aside")
    with pytest.raises(CheckpointError, match="sink_behind .*has no batch but had batch"):
        world.run()
    aside.rename(world.table)
    world.run()
    shutil.rmtree(world.table)
    shutil.copytree(copy, world.table)
    with pytest.raises(CheckpointError, match="sink_behind .*ends at batch 0 but had batch 2"):
        world.run()
    # The remedy.
    rewind(world.topology, 0, world.options)
    world.run()
    assert world.complete()


def test_a_renamed_sink_goes_back_under_its_stored_name(world):
    renamed = world.source().to_delta("out", name="res").build(renamed={"out": "res"})
    world.run()
    first = savepoint(world.topology, world.options).id
    world.run()
    world.run(renamed)
    restore(renamed.topology, world.options, savepoint_id=first)
    assert world.result() == [0, 1, 2]
    world.run(renamed)
    assert world.complete()
    with pytest.raises(TopologyChangedError):
        restore(world.source().to_delta("new", name="new").build().topology, world.options, savepoint_id=first)


def test_a_checkpoint_with_a_sink_that_the_pipeline_has_not_is_not_gone_back_with(world):
    facts = QueryFacts(generation=1, sinks={"out": 3, "old": 2, "printed": -1})
    known = Manifest(pipeline_id="p1", queries={"a": facts})
    with pytest.raises(TopologyChangedError, match="has 'old', which this version of the pipeline does not") as refused:
        matching(world.topology, known)
    assert "declare what was renamed (build(renamed={'old': 'new'}))" in refused.value.remedy
    renamed = world.source().to_delta("out", name="out").to_delta("new", name="new").build(renamed={"old": "new"})
    manifest, folders = matching(renamed.topology, known)
    assert manifest.queries["a"].sinks == {"out": 3, "new": 2, "printed": -1}
    assert (manifest.stored_name("new"), folders) == ("old", {"a": "a"})


def plan_file(checkpoint, batch, *, partitions=2, **sources):
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {PARTITIONS: str(partitions)}}
    lines = ["v2", json.dumps(about), *(f"{name}:{offset}" for name, offset in sources.items())]
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))


def test_the_number_of_partitions_goes_back_with_the_batch(world, tmp_path):
    windows = world.source().with_fields(ts="timestamp_seconds(n)").window(TumblingWindow.of(Time.seconds(9), "ts"))
    plan = plan_queries(windows.count("rows").to_data_stream().to_delta("out").build().topology)[0]
    plan_file(tmp_path / "g0001" / "a" / "checkpoint", 3, partitions=2)
    alone = Manifest(pipeline_id="p1", partitions=1, queries={"a": QueryFacts(generation=1, stateful=plan.stateful)})
    back = QueryReturn(plan=plan, folder="a", facts=alone.queries["a"], batch=3)
    assert partitions_at([back], alone, tmp_path) == 2
    more = alone.with_query("b", QueryFacts(generation=1, stateful="other"))
    with pytest.raises(CheckpointError, match="had 2 partitions, and that of the other queries") as refused:
        partitions_at([back], more, tmp_path)
    assert refused.value.remedy == "go back to a batch after the rescale, or restore a savepoint from before it"
    plan_file(tmp_path / "g0001" / "a" / "checkpoint", 4, partitions=1)
    assert partitions_at([replace(back, batch=4)], more, tmp_path) == 1
    both = [back, replace(back, folder="b")]
    plan_file(tmp_path / "g0001" / "b" / "checkpoint", 3, partitions=2)
    assert partitions_at(both, more, tmp_path) == 2


@pytest.mark.parametrize(
    ("to_batch", "left", "sources", "expected"),
    [
        # Taken out after the batch, before it, so long ago that Spark has forgotten it, and not yet there.
        (1, {"b": "9"}, "a", {"b": "1"}),
        (3, {"b": "9"}, "a", {"b": "2"}),
        (3, {"c": "7"}, "a", {"c": "7"}),
        (1, {"d": "5"}, "a", {}),
        # Taken out, and back since.
        (3, {}, "ab", {"b": "2"}),
        (2, {}, "ab", {}),
    ],
)
def test_sources_that_were_taken_out_go_back_with_the_batch(tmp_path, to_batch, left, sources, expected):
    for batch, named in enumerate([{"b": 0}, {"b": 1}, {"b": 2}, {}, {"d": 4}, {"b": 8}]):
        plan_file(tmp_path, batch, a=batch, **named)
    facts = QueryFacts(generation=1, left=left, sources=tuple(sources))
    assert left_at(facts, CheckpointLog(tmp_path), to_batch) == expected


def test_the_path_of_a_query_leads_through_the_generations_that_count(world):
    facts = QueryFacts(generation=1, sinks={"out": 9})
    second = begun_with(facts, 5, 2)
    assert (second.path, second.sinks) == (((1, 5),), {"out": 5})
    third = begun_with(second, 7, 3)
    assert path_of(third, 9) == {3: 9, 2: 7, 1: 5}
    assert begun_with(third, 4, 4).path == ((1, 4),)


def test_a_source_that_was_taken_out_comes_back_where_the_batch_left_it(world):
    stream = StreamBuilder.data_stream("shop", "trip")
    both = world.source(stream=stream).union(world.source("b", stream)).to_delta("out", name="out").build()
    for _ in range(2):
        world.grow(name="b")
        world.run(both)
    world.run()
    rewind(world.topology, 0, world.options)
    world.run()
    world.run(both)
    assert world.complete()


def test_files_of_every_form_are_restored_as_often_as_one_likes(world):
    forms = {
        "json": {"compression": "zstd"},
        "csv": {"format": "csv", "header": False, "partition_by": ["half"]},
        "parquet": {"format": "parquet", "partition_by": ["half"]},
    }
    stream = world.source().with_fields(half="n % 2")
    for name, how in forms.items():
        stream = stream.to_file(world.folder / name, name=f"{name}_files", **how)
    files = stream.build()

    def numbers(name):
        found = [*(world.folder / name).glob("batch=*/**/part-*")]
        if name == "parquet":
            return sorted(n for file in found for n in pq.read_table(file, partitioning=None)["n"].to_pylist())
        texts = "".join(pa.input_stream(str(file)).read().decode() for file in found).splitlines()
        return sorted(json.loads(text)["n"] if name == "json" else int(text.strip('"')) for text in texts)

    world.run(files)
    savepoint(files.topology, world.options)
    for _ in range(2):
        world.run(files)
        restore(files.topology, world.options)
        assert [numbers(name) for name in forms] == [[0, 1, 2]] * len(forms)
    world.run(files)
    for name in forms:
        assert len(set(numbers(name))) == len(numbers(name)) == world.written


def test_dead_letters_of_batches_that_are_undone_are_marked_and_come_once(world):
    kept = world.source(bad_records="dead_letter").to_delta("out", name="out").build()

    def letters():
        rows = DeltaTable(world.options.home.dead_letters).to_pyarrow_table().to_pylist()
        return sorted((row["generation"], row["undone_by"]) for row in rows)

    world.run(kept)
    (world.folder / "a" / "bad.json").write_text("not json\n")
    world.run(kept)
    later = savepoint(kept.topology, world.options).id
    assert letters() == [(1, None)]
    rewind(kept.topology, 0, world.options)
    world.run(kept)
    assert letters() == [(1, 2), (2, None)]
    restore(kept.topology, world.options, savepoint_id=later)
    assert letters() == [(1, None), (2, 3)]
    world.run(kept, new_generation=True)
    assert letters() == [(1, 4), (2, 3), (4, None)]


def test_rewind_that_cannot_mark_dead_letters_says_what_to_do_and_is_completed(world, monkeypatch):
    for _ in range(2):
        world.run()
    with monkeypatch.context() as patch:
        full = DeltaError("Generic LocalFileSystem error: No space left on device")
        patch.setattr(DeadLetters, "go_to", Mock(side_effect=full))
        with pytest.raises(SinkError, match="No space left") as refused:
            rewind(world.topology, 0, world.options)
    assert "check the disk" in refused.value.remedy
    with pytest.raises(CheckpointError, match="was interrupted"):
        world.run(rows=0)
    rewind(world.topology, 0, world.options)
    world.run(rows=0)
    assert world.complete()


def test_dead_letters_that_a_query_wrote_under_another_name_go_back_with_it(world):
    def kept(name, **renamed):
        stream = StreamBuilder.data_stream("shop", "trip")
        read = stream.from_file(world.folder / "a", schema=SCHEMA, name=name, bad_records="dead_letter")
        return read.to_delta("out", name="out").build(renamed=renamed)

    def standing():
        rows = DeltaTable(world.options.home.dead_letters).to_pyarrow_table().to_pylist()
        return [(row["generation"], row["query"]) for row in rows if row["undone_by"] is None]

    world.run(kept("a"))
    (world.folder / "a" / "bad.json").write_text("not json\n")
    world.run(kept("a"))
    renamed = kept("clicks", a="clicks")
    world.run(renamed)
    assert standing() == [(1, "a")]
    rewind(renamed.topology, 0, world.options)
    world.run(renamed)
    # A letter has the name that its query began with, which lasts.
    assert standing() == [(2, "a")]


def test_a_damaged_savepoint_touches_no_sink(world):
    world.run()
    savepoint(world.topology, world.options)
    world.run()
    for file in (Path(world.options.home.savepoints) / "objects").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-1] + b"?")
    before = DeltaTable(world.table).version()
    with pytest.raises(RsError):
        restore(world.topology, world.options)
    assert DeltaTable(world.table).version() == before
    assert manifests.load(world.job).generation == 1
    world.run()
    assert world.complete()
