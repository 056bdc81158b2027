"""A file that cannot be read ends a run, and each remedy of the error lets the next one go on."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.files.whole.watch import FilesWatch
from rs_assets.errors import BadRecordError, DataLossError, RsError, SourceReadError
from rs_assets.runtime.options import RunOptions


def parquet(**columns: list) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def lines(*ids: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % number for number in ids)


@dataclass(frozen=True)
class Kind:
    """A kind of files: good ones with the ids 1, 2 and 3, and one that cannot be read."""

    ending: str
    good: Callable[[int], bytes]
    broken: bytes
    error: type[RsError] = SourceReadError
    format: str = "json"


def packed(*ids: int) -> bytes:
    return gzip.compress(lines(*ids))


KINDS: Mapping[str, Kind] = {
    "cut gzip": Kind("jsonl.gz", packed, packed(*range(100))[:-9]),
    "no gzip": Kind("jsonl.gz", packed, lines(7)),
    "bad line": Kind("jsonl", lines, lines(2) + b"{\n", BadRecordError),
    "bad csv": Kind("csv", lambda n: b"id\n%d\n" % n, b"id\n2,3\n", BadRecordError, "csv"),
    "no parquet": Kind("parquet", lambda n: parquet(id=[n]), b"PAR1", format="parquet"),
    "no column": Kind("parquet", lambda n: parquet(id=[n]), parquet(x=[2]), format="parquet"),
}


def replaced(file: Path, content: bytes) -> list[int]:
    file.write_bytes(content)
    return [2]


def taken_away(file: Path, content: bytes) -> list[int]:
    file.unlink()
    return []


def renamed(file: Path, content: bytes) -> list[int]:
    file.unlink()
    file.with_name(f"z{file.name}").write_bytes(content)
    return [2]


def test_files_of_other_batches_stay_as_they_were_planned(tmp_path: Path, options: RunOptions) -> None:
    folder, counts = tmp_path / "in", MemoryChannel()
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl.gz").write_bytes(packed(number, number))
    (folder / "2.jsonl.gz").write_bytes(packed(*range(100))[:-9])

    def run() -> None:
        source = StreamBuilder.data_stream("broken", "files").from_file(
            folder, schema="id bigint", max_files_per_batch=1
        )
        source.to_memory(counts).build().run(options)

    with pytest.raises(SourceReadError):
        run()
    (folder / "2.jsonl.gz").write_bytes(packed(2, 2))
    run()
    assert sorted(row["id"] for row in counts.rows()) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("mend", [replaced, taken_away])
def test_a_file_of_a_plan_that_a_kill_left_can_be_another_one(
    tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch, mend: Callable[[Path, bytes], list[int]]
) -> None:
    folder, out = tmp_path / "in", MemoryChannel()
    folder.mkdir()
    source = StreamBuilder.data_stream("broken", "files").from_file(folder, schema="id bigint")
    pipeline = source.to_memory(out).build()
    (folder / "a.jsonl").write_bytes(lines(1))
    pipeline.run(options)
    (folder / "b.jsonl.gz").write_bytes(KINDS["cut gzip"].broken)
    with monkeypatch.context() as killed:
        # The process ends before it withdraws the plan.
        killed.setattr(FilesWatch, "plans_again", lambda _self, _failure: None)
        with pytest.raises(SourceReadError):
            pipeline.run(options)
    expected = mend(folder / "b.jsonl.gz", packed(2))
    with pytest.raises(DataLossError, match="has changed before it was read|is gone before it was read"):
        pipeline.run(options)
    pipeline.run(options)
    assert [row["id"] for row in out.rows()] == [1, *expected]


@pytest.mark.parametrize("mend", [replaced, taken_away, renamed])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_broken_file_can_be_replaced_taken_away_and_renamed(
    tmp_path: Path, options: RunOptions, kind: Kind, mend: Callable[[Path, bytes], list[int]]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def run() -> list[int]:
        out = MemoryChannel()
        source = StreamBuilder.data_stream("broken", "files").from_file(folder, kind.format, schema="id bigint")
        source.to_memory(out).build().run(options)
        return [row["id"] for row in out.rows()]

    (folder / f"a.{kind.ending}").write_bytes(kind.good(1))
    assert run() == [1]
    broken = folder / f"b.{kind.ending}"
    broken.write_bytes(kind.broken)
    for _ in range(2):
        with pytest.raises(kind.error):
            run()
    expected = mend(broken, kind.good(2))
    assert run() == expected
    (folder / f"c.{kind.ending}").write_bytes(kind.good(3))
    assert run() == [3]
    assert run() == []


def test_run_broken_file_that_several_queries_have_planned_can_be_replaced(tmp_path: Path, options: RunOptions) -> None:
    """The query that meets it ends the others, which have planned it as well."""
    folder = tmp_path / "in"
    folder.mkdir()
    source = StreamBuilder.data_stream("broken", "several").from_file(folder, "parquet", schema="id bigint")
    outs = [MemoryChannel() for _ in range(4)]
    for number, out in enumerate(outs):
        windows = source.window(TumblingWindow.of(Time.minutes(1), "id"), name=f"w{number}").count("n")
        last = windows.to_data_stream().to_memory(out, name=f"o{number}")
    pipeline = last.build()
    (folder / "a.parquet").write_bytes(parquet(id=[1]))
    pipeline.run(options)
    (folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceReadError):
        pipeline.run(options)
    (folder / "b.parquet").write_bytes(parquet(id=[2]))
    pipeline.run(options, finish=True)
    assert [[row["n"] for row in out.rows()] for out in outs] == [[2]] * 4


GOOD = '{"key":"b","n":3,"ts":"2026-11-24T12:00:01"}'
BAD_FIRST = {
    "value": '{"key":"a","n":"x","ts":"2026-11-24T12:00:00"}',
    "time": '{"key":"a","n":1,"ts":null}',
}


@pytest.mark.parametrize("bad", BAD_FIRST)
@pytest.mark.parametrize("tail", [False, True])
def test_a_bad_record_in_the_very_first_batch_of_a_window_can_be_corrected(
    tmp_path: Path, options: RunOptions, bad: str, tail: bool
) -> None:
    file = tmp_path / "in.jsonl"
    stream = StreamBuilder.data_stream("shop", "first").from_file(
        str(file), schema="key string, n bigint, ts timestamp", tail=tail
    )
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("key").sum("n", "n")
    pipeline = window.to_data_stream().to_delta("sums").build()
    file.write_text(f"{BAD_FIRST[bad]}\n{GOOD}\n")
    with pytest.raises(BadRecordError):
        pipeline.run(options, finish=True)
    file.write_text(f"{GOOD}\n")
    report = pipeline.run(options, finish=True)
    assert report.table("sums").select(["key", "n"]).to_pylist() == [{"key": "b", "n": 3}]
