"""Files that no longer change, as a source: what is read, what is refused, and what a restart finds."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.files.zstd import is_cut
from rs_assets.errors import ConfigurationError, DataLossError, SealedError, SourceReadError, UnknownFieldError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport
from rs_assets.spark.driver import SparkDriver

SCHEMA = "id long, name string"


def run(path: object, options: RunOptions, **source: object) -> tuple[list[dict], RunReport]:
    """The rows of one run, by id; each run has a sink of its own."""
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("files", "read").from_file(str(path), **({"schema": SCHEMA} | source))
    report = stream.to_memory(out).build().run(options)
    return sorted(out.rows(), key=lambda row: str(row.get("id"))), report


def ids(rows: list[dict]) -> list[int]:
    return [row["id"] for row in rows]


def checkpoint(options: RunOptions) -> CheckpointLog:
    return CheckpointLog(options.home.job("files", "read") / "g0001" / "file" / "checkpoint")


def put(folder: Path, **files: int) -> Path:
    """One file a name, with one row of that id; older names come first."""
    folder.mkdir(exist_ok=True)
    for age, (name, number) in enumerate(files.items()):
        file = folder / f"{name}.jsonl"
        file.write_text(f'{{"id":{number}}}\n')
        os.utime(file, (1_700_000_000 + age, 1_700_000_000 + age))
    return folder


@pytest.mark.parametrize(
    ("name", "text", "source", "expected"),
    [
        ("a.jsonl", '{"id":1,"name":"x"}\n{"id":2}\n', {}, [{"id": 1, "name": "x"}, {"id": 2, "name": None}]),
        ("a.csv", "id,name\n1,x\n2,\n", {"format": "csv"}, [{"id": 1, "name": "x"}, {"id": 2, "name": None}]),
        ("b.csv", "1,x\n", {"format": "csv", "header": False}, [{"id": 1, "name": "x"}]),
        ("a.txt", "one line\nno newline", {"format": "text", "schema": None}, ["one line", "no newline"]),
        (
            "a.log",
            "7 2026-01-05\n",
            {"format": "text", "pattern": "(?P<id>[0-9]+) (?P<name>.*)"},
            [{"id": 7, "name": "2026-01-05"}],
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_single_file_of_each_format_is_bounded(
    tmp_path: Path, options: RunOptions, name: str, text: str, source: dict, expected: list, suffix: str
) -> None:
    file = tmp_path / f"{name}{suffix}"
    file.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    rows, report = run(file, options, **source)
    assert (rows if "id" in rows[0] else [row["value"] for row in rows]) == expected
    assert (report.rows_in, report.rows_out, report.sealed) == (len(expected), len(expected), True)


def test_a_zstd_file_is_read(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(pa.compress(b'{"id":1}\n{"id":2}\n', codec="zstd", asbytes=True))
    rows, report = run(tmp_path / "a.jsonl.zst", options)
    assert (ids(rows), report.rows_in) == ([1, 2], 2)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_zstd_file_that_is_cut_in_its_second_frame_is_refused(tmp_path: Path, options: RunOptions, form: str) -> None:
    schema = {"json": "id bigint", "text": None}[form]
    whole = b"".join(pa.compress(b'{"id":%d}\n' % number, codec="zstd", asbytes=True) for number in (1, 2))
    file = tmp_path / "in" / "a.jsonl.zst"
    file.parent.mkdir()
    for cut in (1, 5, 12):
        file.write_bytes(whole[:-cut])
        with pytest.raises(SourceReadError, match="cut short") as refused:
            run(file.parent, options, format=form, schema=schema)
        assert refused.value.facts["file"] == file
    file.write_bytes(whole)
    assert len(run(file.parent, options, format=form, schema=schema)[0]) == 2


def test_a_cut_zstd_file_is_recognised_at_each_byte(tmp_path: Path) -> None:
    file = tmp_path / "a.zst"
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    frames = [pa.compress(data, codec="zstd", asbytes=True) for data in (b"", b"x" * 300, os.urandom(200_000))]
    for one in (*frames, skipped):
        cuts = {*range(1, min(len(one), 40)), len(one) - 1}
        for content, cut in [(skipped + one, 0), *((frames[0] + one, cut) for cut in cuts)]:
            file.write_bytes(content[: len(content) - cut])
            assert is_cut(file) == (cut > 0), (len(one), cut)
    file.write_bytes(b"no zstd")
    assert not is_cut(file)


def test_a_sealed_file_that_changed_is_refused(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id":1}\n')
    assert ids(run(file, options)[0]) == [1]
    again, report = run(file, options)
    assert (again, report.rows_in, report.sealed) == ([], 0, True)
    with file.open("a") as more:
        more.write('{"id":2}\n')
    with pytest.raises(SealedError) as refused:
        run(file, options)
    assert refused.value.facts["file"] == file
    rows, report = run(file, replace(options, new_generation=True))
    assert (ids(rows), report.generation) == ([1, 2], 2)


def test_a_schema_of_a_start_that_read_nothing_is_inferred_again(tmp_path: Path, options: RunOptions) -> None:
    file, out = tmp_path / "a.jsonl", MemoryChannel()
    file.write_text('{"pge":"/"}\n')
    stream = StreamBuilder.data_stream("shop", "inferred").from_file(file).select_fields("page")
    pipeline = stream.to_memory(out).build()
    with pytest.raises(UnknownFieldError, match="page"):
        pipeline.run(options)
    file.write_text('{"page":"/"}\n')
    pipeline.run(options)
    assert out.rows() == [{"page": "/"}]


def test_a_directory_is_caught_up_with_and_new_files_are_read_once(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", a=1, b=2)
    rows, report = run(folder, options)
    assert (ids(rows), report.sealed) == ([1, 2], False)
    put(folder, c=3)
    assert ids(run(folder, options)[0]) == [3]
    assert run(folder, options)[0] == []


def test_an_empty_directory_waits(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in")
    assert run(folder, options)[0] == []
    put(folder, a=1)
    assert ids(run(folder, options)[0]) == [1]


def test_a_path_without_anything_is_refused_before_spark(tmp_path: Path, options: RunOptions) -> None:
    class NoSpark(SparkDriver):
        def call(self, function: object) -> object:
            pytest.fail(f"Spark was asked for {function}")

    unstarted = replace(options, driver=NoSpark())
    for source in ({}, {"schema": None}, {"format": "csv"}, {"format": "parquet"}, {"tail": True}):
        with pytest.raises(ConfigurationError, match=r"/none") as refused:
            run(tmp_path / "none" / "a.jsonl", unstarted, **source)
        assert "a.jsonl" in str(refused.value)
    assert not options.home.job("files", "read").joinpath("manifest.json").exists()


def test_a_followed_file_that_was_read_may_be_gone(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id":1}\n')
    assert ids(run(file, options, tail=True)[0]) == [1]
    file.unlink()
    assert run(file, options, tail=True)[0] == []


def test_a_glob_takes_what_it_matches(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", a1=1, a2=2, b1=3)
    rows, report = run(folder / "a*.jsonl", options)
    assert (ids(rows), report.sealed) == ([1, 2], False)
    put(folder, a3=4)
    assert ids(run(folder / "a*.jsonl", options)[0]) == [4]


def test_batches_take_so_many_files_oldest_first(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", c=1, b=2, a=3)
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("files", "read").from_file(folder, schema=SCHEMA, max_files_per_batch=2)
    report = stream.to_memory(out).build().run(options)
    assert report.batches == 2
    assert sorted(ids(out.rows()[:2])) == [1, 2]
    assert ids(out.rows()[2:]) == [3]


@pytest.mark.parametrize(("form", "schema"), [("csv", "value string"), ("text", None)])
def test_files_of_the_same_time_are_taken_by_name(
    tmp_path: Path, options: RunOptions, form: str, schema: str | None
) -> None:
    """A folder lists its files in an order of its own, in ext4 that of a hash."""
    expected = [f"part-{number:02}" for number in range(10)]
    (tmp_path / "in").mkdir()
    for name in expected:
        file = tmp_path / "in" / f"{name}.txt"
        file.write_text(f"{name}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("files", "read").from_file(
        tmp_path / "in", format=form, schema=schema, header=False, max_files_per_batch=1
    )
    stream.to_memory(out).build().run(options)
    assert [row["value"] for row in out.rows()] == expected


def test_an_inferred_schema_is_pinned(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id":1,"name":"x"}\n')
    assert run(folder, options, schema=None)[0] == [{"id": 1, "name": "x"}]
    # Inferred now, it would have another field, and an id of another type.
    (folder / "0.jsonl").write_text('{"id":2,"more":true}\n')
    assert run(folder, options, schema=None)[0] == [{"id": 2, "name": None}]
    (folder / "00.jsonl").write_text('{"id":"three"}\n')
    assert run(folder, options, schema=None, bad_records="skip")[1].rows_dead == 1


def test_an_inferred_csv_schema_takes_names_from_the_header(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.csv").write_text("id,when\n1,2026-01-05\n")
    (row,) = run(tmp_path / "a.csv", options, format="csv", schema=None)[0]
    assert list(row) == ["id", "when"]
    assert row["id"] == 1


def test_a_file_that_grew_after_it_was_read_is_data_loss(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", a=1)
    run(folder, options)
    with (folder / "a.jsonl").open("a") as file:
        file.write('{"id":2}\n')
    with pytest.raises(DataLossError) as raised:
        run(folder, options)
    assert raised.value.facts["file"] == folder / "a.jsonl"
    assert raised.value.facts["range"] == "bytes 9 to 18"


def _deleted(file: Path) -> None:
    file.unlink()


def _shrunk(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:4])


LOST = pytest.mark.parametrize("lose", [_deleted, _shrunk])
POLICIES = pytest.mark.parametrize("policy", ["fail", "skip"])


@LOST
@POLICIES
def test_a_file_lost_behind_the_plan_is_no_empty_batch(
    tmp_path: Path, options: RunOptions, lose: Callable[[Path], None], policy: str
) -> None:
    folder = put(tmp_path / "in", a=1, b=2)
    run(folder, options, max_files_per_batch=1, bad_records=policy)
    # As after a crash: the second batch was planned, and is not committed.
    log = checkpoint(options)
    for file in ("1", ".1.crc"):
        (log.folder / "commits" / file).unlink(missing_ok=True)
    lose(folder / "b.jsonl")
    with pytest.raises(DataLossError) as raised:
        run(folder, options, max_files_per_batch=1, bad_records=policy)
    assert raised.value.facts["file"] == folder / "b.jsonl"
    assert raised.value.facts["range"]
    assert log.last_committed() == 0


@LOST
def test_a_file_lost_between_two_batches_is_no_empty_batch(
    tmp_path: Path, options: RunOptions, lose: Callable[[Path], None]
) -> None:
    folder = put(tmp_path / "in", a=1, b=2)
    losing = replace(options, on_progress=lambda _: lose(folder / "b.jsonl"))
    with pytest.raises(DataLossError) as raised:
        run(folder, losing, max_files_per_batch=1)
    assert raised.value.facts["file"] == folder / "b.jsonl"
    assert checkpoint(options).last_committed() == 0
