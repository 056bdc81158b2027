"""Backfill: a partition computed again from the recorded input, next to a stream that writes on."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import (
    Dimension,
    EventTimePartitions,
    HoppingWindow,
    RsError,
    SessionWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.delta.backfill import Replacement
from rs_assets.connectors.delta.files.data_files import StagedFiles
from rs_assets.errors import (
    BadRecordError,
    CheckpointError,
    ConfigurationError,
    DataLossError,
    SinkError,
    SourceReadError,
    StepError,
    TopologyChangedError,
    TopologyError,
)
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_batch_offsets import drop

PLACES, SETTLED = ("one", "two"), {"settle": Time.minutes(0)}
NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
NOTHING = timedelta(0)
TEN, ELEVEN = "2026-01-05-10:00", "2026-01-05-11:00"
SCHEMA = "id bigint, ts timestamp"
Record = tuple[int, datetime]


class Log:
    """Files of records, each of which a batch reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Record] = []
        folder.mkdir()

    def put(self, *records: tuple[int, str | datetime]) -> None:
        read = [(key, at if isinstance(at, datetime) else _at(at)) for key, at in records]
        rows = [{"id": key, "ts": f"{at:%Y-%m-%d %H:%M:%S}"} for key, at in read]
        self.records += read
        name = f"f{len(list(self.folder.iterdir())):04d}.jsonl"
        (self.folder / name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def stream(self, job: str = "hits") -> DataStream:
        begin = StreamBuilder.data_stream("fill", job)
        return begin.from_file(self.folder, schema=SCHEMA, max_files_per_batch=1, name="file")


def _at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-05T{clock}:00+00:00")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "in")


def hourly(field: str = "start_time", **settings: Any) -> EventTimePartitions:
    return EventTimePartitions.hourly(field, since="2026-01-01", **settings)


def counted(log: Log, window: Any = None, field: str = "start_time") -> Pipeline:
    counts = log.stream().window(window or TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id")
    return counts.count("n").to_data_stream().to_delta("hits", partitions=hourly(field)).build()


def kept(log: Log, condition: str = "id >= 0") -> Pipeline:
    rows = log.stream().filter(condition, name="kept")
    return rows.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()


def table(options: RunOptions) -> DeltaTable:
    return DeltaTable(options.home.table("fill", "hits"))


def rows(options: RunOptions, *fields: str) -> Counter[tuple[Any, ...]]:
    found = table(options).to_pyarrow_table().to_pylist()
    return Counter(tuple(row[field] for field in fields) for row in found)


def late(pipeline: Pipeline, options: RunOptions) -> dict[str, int]:
    """The late rows of the partitions that have some."""
    return {each.key: each.late for each in pipeline.partitions(options).partitions if each.late}


def windows(records: Iterable[Record], size: int = 10, slide: int = 10) -> Counter[tuple[Any, ...]]:
    """Each window of `size` minutes every `slide`: id, start and count, as a plain model counts them."""
    counts: Counter[tuple[int, datetime]] = Counter()
    for key, at in records:
        start = at - timedelta(minutes=at.minute % slide, seconds=at.second)
        while start + timedelta(minutes=size) > at:
            counts[key, start] += 1
            start -= timedelta(minutes=slide)
    return Counter({(key, start, n): 1 for (key, start), n in counts.items()})


def hour(found: Counter[tuple[Any, ...]], number: int, *, at: int = 1) -> Counter[tuple[Any, ...]]:
    return Counter({row: n for row, n in found.items() if row[at].hour == number})


def test_late_records_come_into_their_windows_and_the_stream_goes_on(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "11:15")], [(1, "10:06"), (1, "10:55")], [(1, "12:30")]):
        log.put(*records)
        report = pipeline.run(options)
    assert report.rows_late == 0
    before = rows(options, "id", "start_time", "n")
    assert hour(before, 10) != hour(windows(log.records), 10)

    assert late(pipeline, options) == {TEN: 2}
    (same,) = pipeline.backfill(TEN, options, judge="as_then")
    assert (rows(options, "id", "start_time", "n"), same.rows_before, same.rows) == (before, 2, 2)
    assert late(pipeline, options) == {TEN: 2}
    (done,) = pipeline.backfill(TEN, options)
    assert (done.partition, done.rows_before, done.rows, done.version) == (TEN, 2, 3, table(options).version())
    after = rows(options, "id", "start_time", "n")
    assert hour(after, 10) == hour(windows(log.records), 10)
    assert hour(after, 11) == hour(before, 11)
    assert late(pipeline, options) == {}

    log.put((1, "13:30"))
    pipeline.run(options)
    log.put((5, "14:30"))
    pipeline.run(options, finish=True)
    assert rows(options, "id", "start_time", "n") == windows(log.records)


def test_the_records_of_a_row_are_those_that_the_backfill_has_taken(log: Log, options: RunOptions) -> None:
    """Late records count with the batches before the backfill, those of later batches do not."""
    pipeline = counted(log)
    for records in ([(1, "10:05"), (1, "11:15")], [(1, "10:06"), (1, "10:16"), (2, "10:07")]):
        log.put(*records)
        pipeline.run(options)
    row = {"id": 1, "start_time": _at("10:00")}
    assert pipeline.records_of(row, options).rows == 1
    pipeline.backfill(TEN, options)
    log.put((1, "10:08"))
    pipeline.run(options)
    texts = [str(record.text) for record in pipeline.records_of(row, options).records]
    assert ["10:06" in texts[0], "10:05" in texts[1], len(texts)] == [True, True, 2]
    assert pipeline.records_of({"id": 1}, options).rows == 4


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("field", ["start_time", "end_time"])
@pytest.mark.parametrize(("size", "slide"), [(10, 10), (40, 10), (90, 30)])
def test_each_partition_equals_a_plain_count_of_all_records(
    size: int, slide: int, field: str, seed: int, log: Log, options: RunOptions
) -> None:
    chance = random.Random(seed)
    window = HoppingWindow.of(Time.minutes(size), Time.minutes(slide), "ts") if size > slide else None
    pipeline, at = counted(log, window, field), NINE
    for _ in range(8):
        at += timedelta(minutes=chance.randrange(10, 50))
        log.put(*((chance.randrange(3), at - timedelta(minutes=chance.choice([0, 3, 20, 80]))) for _ in range(6)))
        pipeline.run(options)
    before = rows(options, "id", "start_time", "n")
    closed = [each.key for each in pipeline.partitions(options).partitions if each.closed]
    pipeline.backfill(closed[0], options, to=closed[-1], judge="as_then")
    assert rows(options, "id", "start_time", "n") == before
    lacking = {
        hourly(field).key(hourly(field).value_of(start + (timedelta(minutes=size) if field == "end_time" else NOTHING)))
        for _, start, _ in windows(log.records, size, slide) - before
    }
    assert late(pipeline, options).keys() & {*closed} == lacking & {*closed}
    pipeline.backfill(closed[0], options, to=closed[-1])
    found, wanted = rows(options, "id", "start_time", "n", field), windows(log.records, size, slide)
    ends = {key: hourly(field).parse(key) for key in closed}
    for value in ends.values():
        step = timedelta(minutes=size) if field == "end_time" else timedelta(0)
        mine = {row[:3] for row in found if hourly(field).value_of(row[3]) == value}
        assert mine == {row for row in wanted if hourly(field).value_of(row[1] + step) == value}


def test_corrected_code_and_rows_changed_by_hand_are_computed_again(log: Log, options: RunOptions) -> None:
    log.put((1, "10:05"), (2, "10:07"), (3, "11:01"))
    log.put((4, "10:59"), (5, "12:01"))
    kept(log, "id <> 2").run(options)
    assert hour(rows(options, "id", "ts"), 10) == Counter({(1, _at("10:05")): 1, (4, _at("10:59")): 1})
    table(options).delete("id = 1")
    corrected = kept(log, "id <> 4")
    assert [each.rows for each in corrected.backfill(TEN, options, plan=True)] == [None]
    assert corrected.backfill(TEN, options)[0].rows == 2
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1, (5,): 1})


def test_rows_that_come_meanwhile_stay_and_a_rewritten_partition_is_refused(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = kept(log)
    log.put((1, "10:05"), (2, "11:01"))
    pipeline.run(options)
    staged = Replacement._staged

    def meanwhile(act: Callable[[], object]) -> None:
        def later(self: Replacement, *arguments: Any) -> Any:
            made = staged(self, *arguments)
            act()
            return made

        monkeypatch.setattr(Replacement, "_staged", later)

    def more() -> None:
        log.put((3, "10:30"), (4, "11:30"))
        pipeline.run(options)

    meanwhile(more)
    pipeline.backfill(TEN, options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1, (4,): 1})

    # A compaction has joined files of before with rows that came after: they cannot be told apart.
    meanwhile(table(options).optimize.compact)
    with pytest.raises(SinkError, match="rewritten by another process"):
        pipeline.backfill(TEN, options)
    meanwhile(lambda: None)
    pipeline.backfill(TEN, options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1, (4,): 1})


@pytest.mark.parametrize("meanwhile", ["backfill", "rewind", "new generation"])
def test_an_empty_partition_gets_its_rows_once(
    meanwhile: str, log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no file whose removal would conflict."""
    log.put((2, "11:01"))
    kept(log, "id <> 1").run(options)
    log.put((1, "10:05"), (3, "11:30"))
    kept(log, "id <> 1").run(options)
    corrected, staged = kept(log), Replacement._staged
    acts: dict[str, Callable[[], object]] = {
        "backfill": lambda: corrected.backfill(TEN, options),
        "rewind": lambda: corrected.rewind(to_batch=0, options=options),
        "new generation": lambda: corrected.run(replace(options, new_generation=True)),
    }

    def later(self: Replacement, *arguments: Any) -> Any:
        monkeypatch.undo()
        made = staged(self, *arguments)
        acts[meanwhile]()
        return made

    monkeypatch.setattr(Replacement, "_staged", later)
    with pytest.raises(SinkError, match="in the meantime"):
        corrected.backfill(TEN, options)
    corrected.run(options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1})
    assert corrected.backfill(TEN, options)[0].rows == 1
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1})


def test_a_backfill_during_which_keys_are_forgotten_does_not_bring_them_back(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has no row of the key, so no commit of the removal says that it was there."""
    log.put((2, "11:01"))
    kept(log, "id <> 1").run(options)
    log.put((1, "10:05"), (3, "11:30"))
    kept(log, "id <> 1").run(options)
    corrected, staged = kept(log), Replacement._staged

    def later(self: Replacement, *arguments: Any) -> Any:
        monkeypatch.undo()
        made = staged(self, *arguments)
        assert corrected.forget({"id": [1]}, options, savepoints="remove").complete
        return made

    monkeypatch.setattr(Replacement, "_staged", later)
    with pytest.raises(CheckpointError, match="in the meantime"):
        corrected.backfill(TEN, options)
    assert corrected.backfill(TEN, options)[0].rows == 0
    assert rows(options, "id") == Counter({(2,): 1, (3,): 1})
    assert corrected.forget({"id": [1]}, options).complete


def test_a_compaction_just_before_the_commit_brings_no_old_rows_back(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes no data, so Delta's check of conflicts passes it over."""
    pipeline = kept(log)
    for records in ([(1, "10:05")], [(2, "10:07"), (3, "11:01")]):
        log.put(*records)
        pipeline.run(options)
    placed = StagedFiles.placed

    def compacted(self: StagedFiles, **arguments: Any) -> Any:
        table(options).optimize.compact()
        return placed(self, **arguments)

    monkeypatch.setattr(StagedFiles, "placed", compacted)
    with pytest.raises(SinkError, match="rewritten by another process"):
        pipeline.backfill(TEN, options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1})
    monkeypatch.undo()
    pipeline.backfill(TEN, options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1, (3,): 1})


def settled(rows: DataStream) -> Pipeline:
    return rows.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()


def test_a_record_that_would_end_a_run_ends_the_backfill(log: Log, options: RunOptions) -> None:
    """Else corrected code would drop rows that were good before, without a word."""
    log.put((1, "10:05"), (2, "10:07"), (3, "11:01"))
    kept(log).run(options)
    version = table(options).version()
    with pytest.raises(BadRecordError, match="expected id <> 2") as refused:
        settled(log.stream().expect("id <> 2", on_fail="fail", name="kept")).backfill(TEN, options)
    assert ("on_fail='warn', 'skip'" in refused.value.remedy, table(options).version()) == (True, version)
    assert settled(log.stream().expect("id <> 2", on_fail="skip", name="kept")).backfill(TEN, options)[0].rows == 1
    assert rows(options, "id") == Counter({(1,): 1, (3,): 1})


def refusing_two(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] == 2:
        raise ValueError("not two")
    return row


def test_a_function_that_raises_ends_the_backfill_and_the_record_is_named(log: Log, options: RunOptions) -> None:
    log.put((1, "10:05"), (3, "11:01"))
    log.put((1, "10:06"), (2, "10:07"), (3, "11:01"))
    kept(log).run(options)
    with pytest.raises(StepError, match="not two") as failed:
        settled(log.stream().map(refusing_two, schema=SCHEMA, name="kept")).backfill(TEN, options)
    assert (failed.value.facts["step"], failed.value.facts["line"]) == ("kept", 2)
    assert str(failed.value.facts["split"]).endswith("f0001.jsonl")


@pytest.mark.long
def test_a_step_that_asks_for_the_clock_is_refused(log: Log, options: RunOptions) -> None:
    """A filter of the last day would drop all rows of the partition."""
    log.put((1, "10:05"), (2, "11:01"))
    for clock in ("current_timestamp()", "now()"):
        stream = log.stream().with_fields(read=f"date_format({clock}, 'y')", name="read")
        settled(stream).run(replace(options, keep_state=True))
        with pytest.raises(TopologyError, match="'read' asks for the clock"):
            settled(stream).backfill(TEN, options)
    assert settled(log.stream().with_fields(read="date_format(ts, 'y')")).backfill(TEN, options)[0].rows == 1


@pytest.mark.long
def test_batches_of_a_source_that_was_removed_are_refused(tmp_path: Path, options: RunOptions) -> None:
    one, two = Log(tmp_path / "one"), Log(tmp_path / "two")

    def stream(*logs: Log) -> Pipeline:
        begin = StreamBuilder.data_stream("fill", "hits")
        first, *others = (begin.from_file(each.folder, schema=SCHEMA, name=each.folder.name) for each in logs)
        return settled(first.union(*others) if others else first)

    one.put((1, "10:05"))
    two.put((2, "10:06"))
    stream(one, two).run(options)
    one.put((3, "11:05"))
    stream(one).run(options)
    version = table(options).version()
    with pytest.raises(DataLossError, match="has read the source 'two', which the pipeline no longer has"):
        stream(one).backfill(TEN, options)
    assert table(options).version() == version
    assert stream(one, two).backfill(TEN, options)[0].rows == 2


def minutes_of(before: Any, row: dict[str, Any]) -> dict[str, str]:
    return {"minutes": f"{before['minutes'] if before else ''} {row['ts'].minute}"}


@pytest.mark.long
def test_records_of_another_place_are_not_taken_for_those_of_a_batch(tmp_path: Path, options: RunOptions) -> None:
    def written(name: str, key: int) -> str:
        rows = {"id": pa.array([key, key + 1]), "ts": pa.array([_at("10:05"), _at("11:06")])}
        write_deltalake(str(tmp_path / name), pa.table(rows))
        return str(tmp_path / name)

    def reading(place: str) -> Pipeline:
        rows_of = StreamBuilder.data_stream("fill", "hits").from_delta(place, name="taken")
        return rows_of.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()

    read, other = reading(written("read", 1)), reading(written("other", 7))
    read.run(options)
    # Batch 0 is versions of the one table: the same versions of another one have other rows.
    for asks in (
        lambda: other.backfill(TEN, options),
        lambda: other.prove(options),
        lambda: other.why(options, where="id = 7"),
        lambda: other.records_of({"id": 1}, options),
        lambda: other.capture(options, into=tmp_path / "captured"),
        lambda: other.redrive(options),
    ):
        with pytest.raises(
            TopologyChangedError, match="'taken' reads another place than the recorded batches"
        ) as error:
            asks()
        assert error.value.remedy.startswith("use code that reads the former place")
    (tmp_path / "read").rename(tmp_path / "former")
    (tmp_path / "other").rename(tmp_path / "read")
    with pytest.raises(DataLossError, match="replaced by a new one since batch 0 read it"):
        read.backfill(TEN, options)
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1})
    # The same records have moved.
    moved = reading(str(tmp_path / "former"))
    moved.run(options)
    assert [each.rows for each in moved.backfill(TEN, options)] == [1]
    shutil.rmtree(tmp_path / "read")
    (tmp_path / "former").rename(tmp_path / "read")
    read.run(options)
    assert [each.rows for each in read.backfill(TEN, options)] == [1]
    assert rows(options, "id") == Counter({(1,): 1, (2,): 1})


def test_records_of_files_that_moved_are_read_where_a_batch_read_them(log: Log, options: RunOptions) -> None:
    log.put((1, "10:05"), (2, "10:06"), (3, "11:10"))
    kept(log).run(options)
    elsewhere = Log(log.folder.with_name("elsewhere"))
    (filled,) = kept(elsewhere, "id <> 1").backfill(TEN, options)
    assert (filled.rows_before, filled.rows) == (2, 1)
    assert rows(options, "id") == Counter({(2,): 1, (3,): 1})
    log.folder = log.folder.rename(log.folder.with_name("moved"))
    with pytest.raises(DataLossError, match="it is gone") as refused:
        kept(log).backfill(TEN, options)
    assert refused.value.remedy.endswith("if 'file' has moved with its files, run the pipeline with this code first")
    kept(log).run(options)
    (filled,) = kept(log).backfill(TEN, options)
    assert (filled.rows_before, filled.rows) == (1, 2)


def test_a_source_that_was_added_or_renamed_since_is_none_of_the_batches_before(
    tmp_path: Path, options: RunOptions
) -> None:
    # Their fields are inferred.
    for key, name in ((1, "one"), (7, "two")):
        write_deltalake(str(tmp_path / name), pa.table({"id": pa.array([key]), "ts": pa.array([_at("10:05")])}))
    begin = StreamBuilder.data_stream("fill", "hits")

    def united(condition: str, *names: str, **renamed: str) -> Pipeline:
        one, *others = (
            begin.from_delta(str(tmp_path / place), name=name) for place, name in zip(PLACES, names, strict=False)
        )
        rows_of = one.union(*others, name="united") if others else one
        written = rows_of.filter(condition, name="kept").to_delta(
            "hits", name="out", partitions=hourly("ts", **SETTLED)
        )
        return written.build(renamed=renamed)

    united("true", "first").run(options, finish=True)
    both = united("id <> 1", "first", "second")
    (found,) = both.why(options, source="first", where="id = 1")
    assert [each.outcome for each in found.steps][-1] == "dropped"
    assert both.why(options, source="second", where="id = 7") == ()
    (filled,) = both.backfill(TEN, options)
    assert (filled.rows_before, filled.rows) == (1, 0)
    (filled,) = united("true", "again", first="again").backfill(TEN, options)
    assert (filled.rows_before, filled.rows) == (0, 1)


def test_steps_after_the_window_are_those_of_a_run(log: Log, options: RunOptions) -> None:
    """Expectations, dimensions, and functions in Python under quarantine."""
    tiers = Dimension.from_loader(
        lambda: [{"id": n, "tier": f"t{n}"} for n in range(9)], schema="id bigint, tier string"
    )
    begin = StreamBuilder.data_stream("fill", "hits")
    source = begin.from_file(log.folder, schema=SCHEMA, max_files_per_batch=1, name="file", bad_records="quarantine")
    counts = source.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    counts = counts.reduce(minutes_of, schema="minutes string")
    judged = counts.to_data_stream().expect("n < 3", on_fail="skip", name="few").dim_join(tiers, on="id")
    pipeline = judged.to_delta("hits", partitions=hourly()).build()
    for records in (
        [(1, "10:05"), (2, "10:07"), (3, "10:07"), (3, "10:07"), (3, "10:08")],
        [(1, "11:15")],
        [(1, "10:06")],
    ):
        log.put(*records)
        pipeline.run(options)
    before = rows(options, "id", "minutes", "tier")
    assert before == Counter({(1, " 5", "t1"): 1, (2, " 7", "t2"): 1})
    pipeline.backfill(TEN, options, judge="as_then")
    assert rows(options, "id", "minutes", "tier") == before
    pipeline.backfill(TEN, options)
    assert rows(options, "id", "minutes", "tier") == Counter({(1, " 5 6", "t1"): 1, (2, " 7", "t2"): 1})


@pytest.mark.long
@pytest.mark.parametrize("place", ["before the files are in place", "before the commit", "after the commit"])
def test_a_crash_leaves_the_partition_as_it_was_or_replaced(
    place: str, log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = kept(log)
    log.put((1, "10:05"), (2, "10:07"), (3, "11:01"))
    pipeline.run(options)
    table(options).delete("id = 1")
    version = table(options).version()

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt(place)

    where = {
        "before the files are in place": (StagedFiles, "placed"),
        "before the commit": (DeltaTable, "create_write_transaction"),
        "after the commit": (Replacement, "_checked"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*where[place], crash)
        with pytest.raises(KeyboardInterrupt):
            pipeline.backfill(TEN, options)
    healed = place == "after the commit"
    assert table(options).version() == version + healed
    assert rows(options, "id") == Counter({(2,): 1, (3,): 1} | ({(1,): 1} if healed else {}))
    pipeline.backfill(TEN, options)
    log.put((4, "11:30"))
    pipeline.run(options)
    assert rows(options, "id") == Counter({(key,): 1 for key in (1, 2, 3, 4)})


@pytest.mark.long
def test_a_rewind_keeps_a_backfill_of_batches_that_stay_and_undoes_others(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05")], [(1, "11:15")], [(1, "10:06")], [(1, "12:30")]):
        log.put(*records)
        pipeline.run(options)
    last = CheckpointLog(options.home.job("fill", "hits") / "g0001" / "windows" / "checkpoint").last_committed()
    pipeline.backfill(TEN, options)
    healed = rows(options, "id", "start_time", "n")
    assert healed[1, _at("10:00"), 2] == 1
    pipeline.rewind(to_batch=last, options=options)
    assert rows(options, "id", "start_time", "n") == healed
    pipeline.rewind(to_batch=1, options=options)
    assert (1, _at("10:00"), 2) not in rows(options, "id", "start_time", "n")
    pipeline.run(options, finish=True)
    found = rows(options, "id", "start_time", "n")
    assert sum(found.values()) == 3
    pipeline.backfill(TEN, options)
    assert rows(options, "id", "start_time", "n") == windows(log.records)


@pytest.mark.long
def test_batches_that_spark_has_dropped_are_read_and_lost_ones_are_refused(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05")], [(1, "11:15")], [(1, "10:06")], [(1, "12:30")], [(1, "13:30")]):
        log.put(*records)
        pipeline.run(options)
    spark = CheckpointLog(options.home.job("fill", "hits") / "g0001" / "windows" / "checkpoint")
    drop(spark, before=spark.last_committed() - 4)
    pipeline.backfill(TEN, options)
    assert rows(options, "id", "start_time", "n")[1, _at("10:00"), 2] == 1
    # Without the catalog nothing says what the dropped batches have read.
    DeltaTable(str(options.home.catalog / "batch_offsets")).delete()
    with pytest.raises(DataLossError, match="are no longer recorded"):
        pipeline.backfill(TEN, options)
    # All that came before was older than this hour.
    assert pipeline.backfill("2026-01-05-12:00", options, plan=True)[0].batches >= 1
    (log.folder / "f0000.jsonl").unlink()
    version = table(options).version()
    with pytest.raises(RsError):
        pipeline.backfill(TEN, options)
    assert table(options).version() == version


@pytest.mark.long
def test_what_cannot_be_computed_again_is_refused(log: Log, options: RunOptions) -> None:
    pipeline = kept(log)
    log.put((1, "10:05"), (2, "11:01"))
    pipeline.run(options)
    for partition, words in ((ELEVEN, "has not closed"), ("2026-01-05-12:00", "has not closed"), ("today", "no hour")):
        with pytest.raises(ConfigurationError, match=words):
            pipeline.backfill(partition, options)
    with pytest.raises(ConfigurationError, match="is before"):
        pipeline.backfill(TEN, options, to="2026-01-05-09:00")
    with pytest.raises(ConfigurationError, match="judge must be one of all, as_then, as_now"):
        pipeline.backfill(TEN, options, judge="now")  # type: ignore[arg-type]
    # Each remedy, followed: name the other one first, wait until it has closed.
    log.put((3, "12:00"))
    pipeline.run(options)
    done = pipeline.backfill("2026-01-05-09:00", options, to=ELEVEN, judge="all")
    assert [(each.rows_before, each.rows) for each in done] == [(0, 0), (1, 1), (1, 1)]
    more = pa.table({"id": [9], "ts": [_at("10:30")], "hour": [_at("10:00")]})
    write_deltalake(table(options), more, mode="append")
    with pytest.raises(SinkError, match="another writer has written"):
        pipeline.backfill(TEN, options)
    own = log.stream("own").to_delta("own", partitions=hourly("ts", settle=Time.minutes(0))).build()
    own.run(options)
    assert own.backfill(TEN, options)[0].rows == 1


@pytest.mark.long
def test_an_output_of_which_no_part_can_be_computed_is_refused(log: Log, options: RunOptions) -> None:
    log.put((1, "10:05"), (2, "11:01"), (3, "12:01"))
    settled = hourly("ts", settle=Time.minutes(1))
    replaced = log.stream("u").to_delta("u", mode="upsert", keys=["id", "ts"], partitions=settled).build()
    with pytest.raises(TopologyError, match="append them"):
        replaced.backfill(TEN, options)
    appended = log.stream("a").to_delta("a", mode="append", partitions=settled).build()
    appended.run(options)
    assert appended.backfill(TEN, options)[0].rows == 1
    counts = log.stream("s").window(SessionWindow.of(Time.minutes(5), "ts")).group_by("id").count("n")
    sessions = counts.to_data_stream().to_delta("s", partitions=hourly("end_time")).build()
    with pytest.raises(TopologyError, match="--new-generation"):
        sessions.backfill(TEN, options)
    sessions.run(options)
    DeltaTable(path := options.home.table("fill", "s")).delete("id = 1")
    sessions.run(replace(options, new_generation=True), finish=True)
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]


def test_reader_of_a_backfilled_table_ends_unless_it_reads_changes(log: Log, options: RunOptions) -> None:
    def reader(job: str, **how: Any) -> Pipeline:
        stream = StreamBuilder.data_stream("fill", job).from_delta("hits", schema="id bigint, n bigint", **how)
        return stream.to_delta(job).build()

    def read(job: str, *fields: str) -> list[tuple[Any, ...]]:
        found = DeltaTable(options.home.table("fill", job)).to_pyarrow_table().to_pylist()
        return sorted(tuple(row[field] for field in fields) for row in found)

    pipeline = counted(log)
    for records in ([(1, "10:05")], [(1, "11:15")]):
        log.put(*records)
        pipeline.run(options)
    table(options).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    copy = reader("copy")
    changes = reader("changes", changes=True, starting_version=table(options).version())
    for each in (copy, changes):
        each.run(options)
    log.put((1, "10:06"), (1, "12:30"))
    pipeline.run(options)
    pipeline.backfill(TEN, options)

    with pytest.raises(SourceReadError, match="rows of a table that is read were changed") as raised:
        copy.run(options)
    assert "changes=True" in raised.value.remedy
    copy.run(replace(options, new_generation=True))
    assert read("copy", "id", "n") == sorted(row[:2] for row in rows(options, "id", "n"))
    changes.run(options)
    assert read("changes", "_change_type", "n") == [("delete", 1), ("insert", 1), ("insert", 2)]


def test_partitions_of_a_file_that_was_edited_are_refused_and_a_touched_file_is_read(
    log: Log, options: RunOptions
) -> None:
    log.put((1, "10:05"), (2, "10:07"))
    log.put((1, "11:15"), (3, "12:30"))
    kept(log).run(options)
    before = rows(options, "id", "ts")
    first = min(log.folder.iterdir())
    text = first.read_text()
    os.utime(first, ns=(0, 0))
    (done,) = kept(log).backfill(TEN, options)
    assert (done.rows, rows(options, "id", "ts")) == (2, before)
    # Of the same length: only its content says that it is another one.
    first.write_text(text.replace('"id":2', '"id":7'))
    os.utime(first, ns=(0, 0))
    for call in (kept(log).backfill, kept(log).prove, kept(log).compare):
        with pytest.raises(DataLossError, match="a file changed after batch 0 had read it"):
            call(partition=TEN, options=options)
    assert rows(options, "id", "ts") == before
    first.write_text(text)
    assert kept(log).compare(options, partition=TEN).empty
