"""Captured batches: what a folder of them holds, and that a replay gives the rows that the batches gave."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from rs_assets import Dimension, EventTimePartitions, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint.log import BatchOffsets
from rs_assets.connectors.delta.log.history import Change
from rs_assets.connectors.generations import Point
from rs_assets.errors import CheckpointError, ConfigurationError, DataLossError, SchemaError, StepError, TopologyError
from rs_assets.runtime.capture.capture import Asked, Capture
from rs_assets.runtime.capture.folder import Captured, CapturedBatch, read_rows, records_file, write_rows
from rs_assets.runtime.capture.reading import control_of, is_left_out, version_of
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline
from rs_assets.testing import replay
from rs_assets.topology.nodes.timed import Side

SCHEMA = "id bigint, ts timestamp"
AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
Shape = Callable[[DataStream], Any]


def put(folder: Path, *files: list[tuple[int, str] | str]) -> Path:
    """A file for each list, which a batch of its own reads; a text is a line that does not parse."""
    folder.mkdir(exist_ok=True)
    begun = len(list(folder.iterdir()))
    for number, records in enumerate(files, begun):
        file = folder / f"f{number:04d}.jsonl"
        rows = (
            each if isinstance(each, str) else orjson.dumps({"id": each[0], "ts": f"2026-01-05 {each[1]}:00"}).decode()
            for each in records
        )
        file.write_text("".join(f"{row}\n" for row in rows))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def read(folder: Path, job: str = "hits", **settings: Any) -> DataStream:
    begin = StreamBuilder.data_stream("capture", job)
    return begin.from_file(folder, schema=SCHEMA, max_files_per_batch=1, name="file", **settings)


def small(folder: Path, condition: str = "id < 3") -> Pipeline:
    return read(folder, bad_records="dead_letter").filter(condition, name="kept").to_delta("hits", name="out").build()


def counted(folder: Path, *, job: str = "hits", value: str = "count(*)", **settings: Any) -> Pipeline:
    windows = read(folder, job).window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id")
    return windows.aggregate(n=value).to_data_stream().to_delta("hits", name="out", **settings).build()


def files(root: Path) -> dict[str, str]:
    """The digest of each file below a folder."""
    every = (path for path in root.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in every}


def expected(folder: Path, batch: int) -> list[dict[str, Any]]:
    return read_rows(folder / "expected" / f"{batch:06d}.out.jsonl")


def test_a_batch_is_replayed_and_a_changed_code_gives_the_rows_that_differ(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05")], [(1, "10:06"), (2, "10:07"), (5, "10:08"), "no record"])
    small(folder).run(options)
    home = files(options.home.root)
    found = small(folder).capture(options, batches=1, into=tmp_path)
    assert (found.folder.name, found.batches, found.earlier, found.records, found.refused) == ("hits_1", (1,), 0, 3, 1)
    assert files(options.home.root) == home
    assert [row["id"] for row in read_rows(found.folder / "records" / "000001.file.jsonl")] == [1, 2, 5]
    assert [row["id"] for row in expected(found.folder, 1)] == [1, 2]
    # The pipeline is made in a function: no module has it.
    assert (found.test, found.expected, "left out: 1 record that a source refused" in str(found)) == (None, 2, True)
    replay(small(folder), found.folder)
    with pytest.raises(AssertionError) as failed:
        replay(small(folder, "id > 1"), found.folder)
    assert str(failed.value).splitlines() == [
        "batch 1, output out: 1 missing, 1 not expected",
        '  - {"id": 1, "ts": "2026-01-05T10:06:00+00:00"}',
        '  + {"id": 5, "ts": "2026-01-05T10:08:00+00:00"}',
    ]
    # Rows that are accepted are those of the current code.
    replay(small(folder, "id > 1"), found.folder, accept=True)
    assert [row["id"] for row in expected(found.folder, 1)] == [2, 5]
    replay(small(folder, "id > 1"), found.folder)


@pytest.mark.long
def test_rows_of_a_window_are_expected_in_the_batch_that_closes_it(tmp_path: Path, options: RunOptions) -> None:
    # The watermark is 10:05 in the second batch, 10:26 in the third, 10:45 in the fourth, 11:05 in the fifth.
    folder = put(
        tmp_path / "in",
        [(1, "10:05")],
        [(1, "10:25"), (2, "10:26")],
        [(1, "10:45"), (2, "10:27")],
        [(1, "11:05"), (1, "10:29")],
        [(1, "11:30")],
    )
    counted(folder).run(options)
    found = counted(folder).capture(options, batches=3, into=tmp_path)
    # Windows of the first batch had closed before: its records do not matter.
    captured = Captured.read(found.folder)
    assert ([each.batch for each in captured.batches], captured.asked, found.earlier) == ([1, 2, 3], (3,), 2)
    assert sorted((row["id"], row["n"]) for row in expected(found.folder, 3)) == [(1, 1), (2, 2)]
    replay(counted(folder), found.folder)
    with pytest.raises(AssertionError, match="batch 3, output out: 2 missing, 2 not expected"):
        replay(counted(folder, value="count(*) + 1"), found.folder)
    # The end of the input fires the windows that are open.
    counted(folder).run(options, finish=True)
    last = counted(folder).capture(options, into=tmp_path)
    assert sorted(row["n"] for row in expected(last.folder, last.batches[0])) == [1]
    replay(counted(folder), last.folder)


@pytest.mark.long
def test_a_batch_that_failed_fails_again_until_the_code_is_mended(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(2, "10:05")], [(0, "10:06"), (4, "10:07")])

    def halves(whole: int) -> Pipeline:
        rows = read(folder).map(lambda row: {"half": whole // row["id"]}, schema="half bigint", name="halve")
        return rows.to_delta("hits", name="out").build()

    def mended() -> Pipeline:
        rows = read(folder).filter("id > 0").map(lambda row: {"half": 8 // row["id"]}, schema="half bigint")
        return rows.to_delta("hits", name="out").build()

    with pytest.raises(StepError):
        halves(8).run(options)
    found = halves(8).capture(options, into=tmp_path)
    assert (found.batches, found.committed, found.expected, found.records) == ((1,), False, 0, 2)
    assert "batch 1 is not committed: its rows are not compared" in str(found)
    with pytest.raises(StepError, match="halve"):
        replay(halves(8), found.folder)
    replay(mended(), found.folder, accept=True)
    assert expected(found.folder, 1) == [{"half": 2}]
    replay(mended(), found.folder)


def hits(stream: DataStream) -> Any:
    return stream.filter("id <> 2")


def sessions(stream: DataStream) -> Any:
    visits = stream.window(SessionWindow.of(Time.minutes(5), "ts"), name="visits").group_by("id").count("n")
    return visits.water_mark(Time.minutes(3)).to_data_stream()


def late_windows(stream: DataStream) -> Any:
    windows = stream.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    return windows.late_to("late").water_mark(Time.minutes(3)).to_data_stream()


def chained(stream: DataStream) -> Any:
    once = stream.distinct("id", "ts", within=Time.minutes(10), time_field="ts", water_mark=Time.minutes(3))
    return once.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").count("n").to_data_stream()


@pytest.mark.long
@pytest.mark.parametrize("shape", [hits, sessions, late_windows, chained])
def test_each_batch_of_several_runs_gives_the_rows_that_it_gave(
    tmp_path: Path, options: RunOptions, shape: Shape
) -> None:
    chance, folder = random.Random(7), tmp_path / "in"
    pipeline = shape(read(put(folder))).to_delta("hits", name="out").build()
    minute = 0
    for _ in range(2):
        for _ in range(3):
            # Some are late, and some runs end with a watermark that no batch has used yet.
            times = [max(0, minute + chance.randrange(-12, 8)) for _ in range(4)]
            put(folder, [(chance.randrange(3), f"{10 + each // 60}:{each % 60:02d}") for each in times])
            minute += 6
        pipeline.run(options)
    pipeline.run(options, finish=True)
    newest = max(int(file.name) for file in options.home.root.rglob("commits/*") if file.name.isdigit())
    found = pipeline.capture(options, batches=(0, newest), into=tmp_path)
    assert (found.records, found.earlier, found.expected > 0) == (24, 0, True)
    replay(pipeline, found.folder)


@pytest.mark.long
def test_a_closed_partition_is_captured_with_the_batch_that_closed_it(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05")], [(2, "10:55")], [(1, "11:20")], [(1, "12:30")])
    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
    pipeline = counted(folder, partitions=hours)
    pipeline.run(options)
    found = pipeline.capture(options, partition="2026-01-05-10:00", into=tmp_path)
    rows = [row for batch in found.batches for row in expected(found.folder, batch)]
    assert sorted((row["id"], row["hour"]) for row in rows if row["hour"].startswith("2026-01-05T10")) == [
        (1, "2026-01-05T10:00:00+00:00"),
        (2, "2026-01-05T10:00:00+00:00"),
    ]
    replay(pipeline, found.folder)


@pytest.mark.long
def test_what_cannot_be_captured_is_refused_with_a_remedy_that_works(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05"), (2, "10:06")], [(1, "10:07")])
    pipeline = small(folder)
    with pytest.raises(CheckpointError, match="has not read anything yet"):
        pipeline.capture(options, into=tmp_path)
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="batch 7 of query 'file' cannot be captured") as refused:
        pipeline.capture(options, batches=7, into=tmp_path)
    assert refused.value.remedy.endswith("0 to 1")
    with pytest.raises(ConfigurationError, match="have read 3 records, more than 2") as refused:
        pipeline.capture(options, batches=(0, 1), into=tmp_path, max_records=2)
    assert refused.value.remedy.endswith("--max-records 3")
    pipeline.capture(options, batches=(0, 1), into=tmp_path, max_records=3)
    with pytest.raises(ConfigurationError, match="the folder exists"):
        pipeline.capture(options, batches=(0, 1), into=tmp_path)
    found = pipeline.capture(options, batches=(0, 1), into=tmp_path, name="other")
    assert found.folder == tmp_path / "other"
    with pytest.raises(ConfigurationError, match="'id' cannot be masked"):
        pipeline.capture(options, into=tmp_path, name="masked", mask=["id"])
    assert not (tmp_path / "masked").exists()


@pytest.mark.long
def test_an_output_without_a_table_of_appended_rows_is_replayed_only(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05")])
    newest = read(folder).to_delta("hits", name="out", mode="upsert", keys=["id"]).build()
    newest.run(options)
    found = newest.capture(options, into=tmp_path)
    assert (found.expected, found.notes) == (
        0,
        ("rows of 'out' are not compared, as no appended Delta table has them: see --expect replay",),
    )
    replay(newest, found.folder, accept=True)
    assert [row["id"] for row in expected(found.folder, 0)] == [1]
    replay(newest, found.folder)


@pytest.mark.long
def test_a_test_that_expects_no_rows_fails_until_they_are_taken(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05"), (2, "10:06")])
    small(folder).run(options)
    found = small(folder).capture(options, into=tmp_path, expect=False)
    with pytest.raises(AssertionError, match="no rows are expected, so nothing was compared"):
        replay(small(folder), found.folder)
    replay(small(folder), found.folder, accept=True)
    replay(small(folder), found.folder)


@pytest.mark.long
def test_the_query_of_the_batches_is_replayed_alone(tmp_path: Path, options: RunOptions) -> None:
    folder, others = put(tmp_path / "in", [(1, "10:05")]), put(tmp_path / "others", [(7, "10:05")])

    def both() -> Pipeline:
        begin = StreamBuilder.data_stream("capture", "both")
        begin.from_file(folder, schema=SCHEMA, name="file").to_delta("hits", name="out")
        # Its fields are inferred, and its rows go to another query.
        return begin.from_file(others, name="others").to_delta("others", name="rest").build()

    both().run(options)
    found = both().capture(options, sink="out", into=tmp_path)
    assert Captured.read(found.folder).sinks == ("out",)
    replay(both(), found.folder)


@pytest.mark.long
def test_rows_of_an_output_that_was_added_later_are_not_compared(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05"), (2, "10:06")])

    def stream(*outputs: str) -> Pipeline:
        rows = read(folder)
        for name in outputs[:-1]:
            rows.to_delta(name, name=name)
        return rows.to_delta(outputs[-1], name=outputs[-1]).build()

    stream("one").run(options)
    both, note = stream("one", "two"), "rows of 'two' are not compared in batch 0: it may not have been there yet"
    before = both.capture(options, batches=0, into=tmp_path, name="before")
    assert (before.expected, before.notes) == (2, ("the code has changed since batch 0", note))
    replay(both, before.folder)
    put(folder, [(3, "11:05")])
    both.run(options)
    after = both.capture(options, batches=(0, 1), into=tmp_path, name="after")
    assert (after.expected, after.notes) == (4, (note,))
    replay(both, after.folder)


@pytest.mark.long
def test_a_step_that_draws_values_by_chance_is_named(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05")])
    drawn = read(folder).with_fields(key="concat(id, uuid())").filter("rand() < 2", name="some")
    pipeline = drawn.to_delta("hits", name="out").build()
    pipeline.run(options)
    first, second = pipeline.capture(options, into=tmp_path).notes
    assert first.endswith("draws values by chance (uuid), others in the test")
    assert second == "step 'some' draws values by chance (rand), others in the test"


@pytest.mark.long
def test_a_batch_of_a_source_that_was_removed_is_refused_and_taken_by_code_that_has_it(
    tmp_path: Path, options: RunOptions
) -> None:
    folders = [put(tmp_path / name, [(number, "10:05")]) for number, name in enumerate(("one", "two"))]

    def stream(*read_from: Path) -> Pipeline:
        begin = StreamBuilder.data_stream("capture", "parted")
        first, *others = (begin.from_file(each, schema=SCHEMA, name=each.name) for each in read_from)
        return (first.union(*others) if others else first).to_delta("hits", name="out").build()

    stream(*folders).run(options)
    put(folders[0], [(3, "11:05")])
    stream(folders[0]).run(options)
    with pytest.raises(DataLossError, match="has read the source 'two', which the pipeline no longer has"):
        stream(folders[0]).capture(options, batches=0, into=tmp_path)
    found = stream(*folders).capture(options, batches=0, into=tmp_path)
    # The code of that batch is the one that it has now: the second run had another.
    assert (found.records, found.expected, found.notes) == (2, 2, ())
    changed = stream(*folders).capture(options, batches=1, into=tmp_path)
    assert changed.notes == ("the code has changed since batch 1",)


@pytest.mark.long
def test_a_dimension_that_is_a_table_by_name_is_looked_up_in_a_test(
    tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RS_HOME", str(options.home.root))
    people = StreamBuilder.data_stream("capture", "people").from_array([{"id": 1, "name": "ada"}])
    people.to_delta("people").build().run(options)
    folder = put(tmp_path / "in", [(1, "10:05"), (2, "10:06")])
    met = read(folder).dim_join(Dimension.from_delta("people"), on="id").to_delta("hits", name="out").build()
    met.run(options)
    found = met.capture(options, into=tmp_path)
    assert [(row["id"], row["name"]) for row in expected(found.folder, 0)] == [(1, "ada")]
    replay(met, found.folder)


@pytest.mark.long
def test_records_that_were_changed_by_hand_are_named_if_they_do_not_fit(tmp_path: Path, options: RunOptions) -> None:
    batch = CapturedBatch(batch=0, at=datetime(2026, 1, 5, tzinfo=UTC))
    folder = tmp_path / "hits_0"
    folder.mkdir()

    def written(source: str, row: dict[str, Any]) -> Path:
        facts = {"pipeline": "capture.hits", "query": source, "code": "", "begins": None, "masked": (), "notes": ()}
        captured = Captured(**facts, schemas={source: SCHEMA}, sinks=("out",), batches=(batch,))
        captured.write(folder)
        write_rows(records_file(folder, 0, source), [row])
        return folder

    with pytest.raises(SchemaError, match="the records of source 'file' do not have its types") as refused:
        replay(small(tmp_path), written("file", {"id": 1, "ts": "in the morning"}))
    assert refused.value.remedy.endswith("docs/capture.md says")
    with pytest.raises(TopologyError, match="no longer has the source 'before'") as refused:
        replay(small(tmp_path), written("before", {"id": 1, "ts": "2026-01-05T10:05:00+00:00"}))
    assert refused.value.remedy.endswith(": file")
    replay(small(tmp_path), written("file", {"id": 1, "ts": "2026-01-05T10:05:00+00:00"}), accept=True)


def test_the_watermark_of_a_silent_input_is_not_moved_and_that_of_a_single_one_is() -> None:
    def query(*sides: str) -> Any:
        later = AT + timedelta(minutes=5)
        ends = [(AT, "-"), (AT, "1"), (later, "1")]
        offsets = {n: BatchOffsets(n, at, AT, {"rs_control": end}) for n, (at, end) in enumerate(ends)}
        log, after = SimpleNamespace(offsets=offsets.get), [AT, later, later]
        made = tuple(Side(gate, "ts", timedelta(minutes=1)) for gate in sides)
        plan = SimpleNamespace(sides=lambda _: made)
        recorded = SimpleNamespace(session=SimpleNamespace(topology=None))
        return SimpleNamespace(log=log, plan=plan, recorded=recorded, watermark_after=after.__getitem__)

    one, two = query("window"), query("join.left", "join.right")
    assert [control_of(one, batch) for batch in range(3)] == [None, AT + timedelta(minutes=6), None]
    assert [is_left_out(one, batch) for batch in range(3)] == [False, False, False]
    assert [is_left_out(two, batch) for batch in range(3)] == [False, True, False]


def test_the_command_to_run_a_test_is_one_for_a_shell() -> None:
    folder = Path("/of/my tests/hits_1")
    counts = {"earlier": 0, "records": 1, "refused": 0, "committed": True, "masked": (), "notes": ()}
    found = Capture(pipeline="shop.hits", folder=folder, test=folder / "test_hits_1.py", batches=(1,), **counts)
    assert "run it: python -m pytest '/of/my tests/hits_1'" in str(found)


def test_batches_and_a_partition_are_refused_together_and_taken_alone() -> None:
    with pytest.raises(ConfigurationError, match="batches and a partition are named"):
        Asked(batches=1, partition="2026-01-05-10:00")
    assert (Asked(batches=1).partition, Asked(partition="2026-01-05-10:00").batches) == (None, None)


def test_a_batch_before_a_rewind_has_the_version_of_the_former_generation() -> None:
    def batch(version: int, generation: int, number: int, **facts: Any) -> Change:
        return Change(version, "batch", "WRITE", point=Point(generation, number), **facts)

    # Batches 0 to 2, back to batch 0, and batch 1 again, whose table a person has accepted later.
    back = Change(3, "return", "RESTORE", point=Point(2, 0), kept=Point(1, 0), source=0)
    changes = [batch(0, 1, 0), batch(1, 1, 1), batch(2, 1, 2), back, batch(4, 2, 1), batch(5, 2, 1, accepts=True)]
    assert [version_of(changes, Point(2, number)) for number in range(3)] == [0, 4, None]
    assert [version_of(changes, Point(1, number)) for number in range(4)] == [0, 1, 2, None]


def test_the_facts_of_a_capture_are_read_as_they_were_written(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [(1, "10:05")])
    counted(folder).run(options, finish=True)
    found = counted(folder).capture(options, into=tmp_path)
    captured = Captured.read(found.folder)
    captured.write(tmp_path)
    assert Captured.read(tmp_path) == captured
    assert json.loads(json.dumps(found.as_dict()))["batches"] == list(found.batches)
