"""Objects as a source: each row once, in any cut, and none of an object that was replaced."""

from __future__ import annotations

import json
import pickle
import random
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rs_assets import StreamBuilder
from rs_assets.common.storage import use_storage
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.files.stored import StoredFiles
from rs_assets.connectors.own.plan import called
from rs_assets.errors import DataLossError, SinkError, SourceReadError, TopologyError
from tests.crash import Crash
from tests.s3.rows import numbers_in, table


@pytest.fixture
def put(bucket, s3):
    def made(name, content):
        s3.client().put_object(Bucket=bucket.removeprefix("s3://"), Key=name, Body=content)
        return content

    return made


def as_json(numbers, end=b"\n"):
    return (
        b"\n".join(json.dumps({"n": n, "text": "é\u2028" * (n % 7)}, ensure_ascii=False).encode() for n in numbers)
        + end
    )


def read(source, cuts):
    """All rows, in parts whose ends `cuts` chooses."""
    found = []
    for split, end in source.ends().items():
        at = 0
        while at < end:
            until = min(end, at + cuts())
            found += list(source.read(split, at, until))
            at = until
    return found


@pytest.mark.parametrize(
    "end", [b"\n", *(pytest.param(end, marks=pytest.mark.long) for end in (b"", b"\r\n", b"\n\n \n"))]
)
def test_lines_are_the_same_however_an_object_is_cut(bucket, put, end):
    chance = random.Random(7)
    for lines, cuts in ((5, lambda: 1), (40, lambda: chance.randint(20, 200)), (40, lambda: 10_000)):
        content = put("in/a.jsonl", as_json(range(lines), end))
        rows = read(StoredFiles(f"{bucket}/in", "json"), cuts)
        assert [line for _, line in rows] == [line for line in content.replace(b"\r", b"").split(b"\n") if line.strip()]
        assert all(content[at : at + len(line)] == line for at, line in rows)


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_lines_of_an_archive_are_those_of_its_content(bucket, put, end):
    content = as_json(range(40_000)) + b"\n" * 1_000_000 + as_json(range(5))
    half = content.index(b"\n", 700_000) - 10
    # Two members, as a log that was appended to, the second of which is packed a thousand times.
    parts = content[:half], content[half:]
    put(f"in/a.jsonl{end}", b"".join(pa.compress(part, codec=CODECS[end], asbytes=True) for part in parts))
    source = StoredFiles(f"{bucket}/in", "json")
    ((split, until),) = source.ends().items()
    assert source.cut(split, 0, until, 10) == until
    rows = [*source.read(split, 0, until)]
    assert [line for _, line in rows] == [line for line in content.split(b"\n") if line]
    assert all(content[at : at + len(line)] == line and at < until for at, line in rows)
    assert [*source.read(split, rows[-2][0], until)] == rows[-2:]
    assert source.unread_bytes({}) > 0 == source.unread_bytes({split: until})


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_an_archive_that_is_cut_short_ends_the_run(bucket, put, end):
    whole = pa.compress(as_json(range(9_000)), codec=CODECS[end], asbytes=True)
    for cut in (len(whole) // 2, len(whole) - 1):
        put(f"in/a.jsonl{end}", whole[:cut])
        source = StoredFiles(f"{bucket}/in", "json")
        ((split, until),) = source.ends().items()
        with pytest.raises(SourceReadError, match="Truncated"), called(source, "read"):
            list(source.read(split, 0, until))


@pytest.mark.parametrize("name", ["a.jsonl.bz2", "a.jsonl.GZ"])
def test_an_archive_that_is_not_read_is_refused(bucket, put, name):
    put(f"in/{name}", b"packed")
    with pytest.raises(SourceReadError, match="are not read") as refused:
        StoredFiles(f"{bucket}/in", "json").ends()
    assert refused.value.remedy == "unpack it, or pack it as .gz or .zst"


def test_parquet_is_cut_between_rows(bucket, put, tmp_path):
    rows = [{"n": n, "price": Decimal(n) / 4, "at": datetime(2026, 1, 1, tzinfo=UTC)} for n in range(25)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=7)
    put("in/a.parquet", (tmp_path / "a.parquet").read_bytes())
    for step in (1, 6, 100):
        assert read(StoredFiles(f"{bucket}/in/*.parquet", "parquet"), lambda step=step: step) == rows


def test_parquet_has_the_columns_of_the_schema(bucket, put, tmp_path):
    for n, columns in enumerate(({"n": [1], "text": ["a"]}, {"n": [2]}, {"n": ["3"], "text": ["c"]})):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        put(f"in/{n}.parquet", (tmp_path / "a.parquet").read_bytes())
    source = StoredFiles(f"{bucket}/in", "parquet", "n bigint, text string")
    first, second, third = sorted(source.ends())
    assert list(source.read(first, 0, 1)) == [{"n": 1, "text": "a"}]
    with pytest.raises(SourceReadError, match="the file has no column 'text'"):
        list(source.read(second, 0, 1))
    with pytest.raises(SourceReadError, match="the file has 'n' as string, and the schema as bigint"):
        list(source.read(third, 0, 1))


def test_a_glob_a_folder_and_one_object_choose_what_they_say(bucket, put):
    for name in (
        "in/a.jsonl",
        "in/deep/b.jsonl",
        "in/c.txt",
        "in/_tmp/d.jsonl",
        "in/.e.jsonl",
        "other/f.jsonl",
        "in/g.jsonl",
    ):
        put(name, b'{"n": 1}\n')
    put("in/empty.jsonl", b"")

    def names(path):
        return {split.partition(" (")[0] for split in StoredFiles(f"{bucket}{path}", "json").ends()}

    assert names("/in") == names("/in/") == {"in/a.jsonl", "in/deep/b.jsonl", "in/c.txt", "in/g.jsonl"}
    assert names("/in/*.jsonl") == {"in/a.jsonl", "in/deep/b.jsonl", "in/g.jsonl"}
    assert names("/in/[ab].jsonl") == {"in/a.jsonl"}
    assert names("/in/a.jsonl") == {"in/a.jsonl"}
    assert names("/none/*.jsonl") == names("/none") == set()


def test_other_processes_get_the_access_and_nothing_shows_the_secret(bucket, put, s3):
    put("in/a.jsonl", b'{"n": 1}\n')
    source = StoredFiles(f"{bucket}/in", "json")
    sent = pickle.dumps(source)
    use_storage({})
    assert len(pickle.loads(sent).ends()) == 1
    use_storage({**s3.options, "AWS_SECRET_ACCESS_KEY": "very-secret"})
    stream = StreamBuilder.data_stream("shop", "files").from_file(f"{bucket}/in", schema="n bigint")
    assert "very-secret" not in repr(source) + stream.to_print().build().describe()


def test_what_a_bucket_cannot_is_refused_with_a_remedy(bucket):
    source = StreamBuilder.data_stream("shop", "files")
    with pytest.raises(TopologyError, match="format csv are not read") as refused:
        source.from_file(f"{bucket}/in/*.csv", schema="n bigint")
    assert "JSON lines or Parquet" in refused.value.remedy
    with pytest.raises(TopologyError, match="time_format does not go with"):
        source.from_file(f"{bucket}/in", schema="n timestamp", time_format="yyyy")
    with pytest.raises(TopologyError, match="tail does not go with"):
        source.from_file(f"{bucket}/in", schema="n bigint", tail=True)


@pytest.mark.long
def test_each_row_once_across_crashes_and_new_objects(bucket, put, options, monkeypatch):
    stream = StreamBuilder.data_stream("shop", "files").from_file(
        f"{bucket}/in/*.jsonl*", schema="n bigint, text string"
    )
    pipeline = stream.to_delta(f"{bucket}/t").build()
    for round_, behind in enumerate((False, True)):
        for part in range(3):
            first = round_ * 30 + part * 10
            lines, end = as_json(range(first, first + 10)), ("", ".gz", ".zst")[part]
            put(f"in/{round_}-{part}.jsonl{end}", pa.compress(lines, codec=CODECS[end], asbytes=True) if end else lines)
        with monkeypatch.context() as patch:
            Crash(patch, DeltaWriter, behind=behind)
            with pytest.raises(SinkError, match="crash"):
                pipeline.run(options)
        pipeline.run(options)
        assert numbers_in(f"{bucket}/t") == list(range(30 * (round_ + 1)))
    assert {row["text"] for row in table(f"{bucket}/t").to_pyarrow_table().to_pylist()} == {
        "é\u2028" * n for n in range(7)
    }
    # An object that was replaced after it was read.
    put("in/0-0.jsonl", as_json(range(100, 120)))
    with pytest.raises(DataLossError, match="in/0-0.jsonl"):
        pipeline.run(options)
    assert numbers_in(f"{bucket}/t") == list(range(60))
