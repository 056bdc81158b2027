"""Parquet files as a source: each file once, by the names of its columns, and read again row by row."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.errors import ConfigurationError, DataLossError, SourceReadError, TopologyError

SCHEMA = "id bigint, page string"


class Folder:
    """A folder of files, and a pipeline that copies it; each run into a new channel."""

    def __init__(self, path, options):
        self.path = path / "in"
        self.path.mkdir()
        self.options = options

    def add(self, name, *ids, **columns):
        table = {"page": ["/"] * len(ids), "id": pa.array(ids, pa.int64()), **columns}
        pq.write_table(pa.table(table), self.path / name)

    def stream(self, path=None, **source):
        begin = StreamBuilder.data_stream("shop", "copy")
        return begin.from_file(path or self.path, "parquet", **({"schema": SCHEMA} | source))

    def run(self, path=None, change=lambda stream: stream, **source):
        out = MemoryChannel()
        change(self.stream(path, **source)).to_memory(out).build().run(self.options)
        return sorted(out.rows(), key=lambda row: row["id"])


@pytest.fixture
def folder(tmp_path, options):
    return Folder(tmp_path, options)


def test_should_read_each_file_once_over_restarts(folder):
    folder.add("a.parquet", 1, 2, note=["x", "y"])
    assert folder.run() == [{"id": 1, "page": "/"}, {"id": 2, "page": "/"}]
    assert folder.run() == []
    folder.add("b.parquet", 3)
    assert [row["id"] for row in folder.run()] == [3]


def test_should_know_the_fields_of_the_first_file(folder):
    folder.add("a.parquet", 1)
    assert folder.run(schema=None) == [{"page": "/", "id": 1}]


def test_should_infer_times_and_know_them_in_later_files(folder):
    at = datetime(2026, 1, 5, 10, tzinfo=UTC)
    folder.add("a.parquet", 1, ts=pa.array([at], pa.timestamp("us", "UTC")))
    assert folder.run(schema=None) == [{"page": "/", "id": 1, "ts": at}]
    folder.add("b.parquet", 2, ts=pa.array([at], pa.timestamp("ms", "UTC")))
    assert folder.run(schema=None) == [{"page": "/", "id": 2, "ts": at}]


def test_should_end_with_a_single_file(folder):
    folder.add("a.parquet", 1)
    assert folder.stream(folder.path / "a.parquet").to_print().build().topology.bounded
    assert folder.run(folder.path / "a.parquet") == [{"id": 1, "page": "/"}]


def test_should_refuse_a_file_without_one_of_the_fields(folder):
    folder.add("a.parquet", 1)
    folder.run()
    pq.write_table(pa.table({"id": [2], "pgae": ["/"]}), folder.path / "b.parquet")
    with pytest.raises(SourceReadError, match="the file has no column 'page'") as raised:
        folder.run()
    assert "id, pgae" in raised.value.remedy
    assert "b.parquet" in str(raised.value)


def test_should_refuse_a_later_file_that_lacks_a_field_of_the_first(folder):
    folder.add("a.parquet", 1)
    folder.run(schema=None)
    pq.write_table(pa.table({"id": [2]}), folder.path / "b.parquet")
    with pytest.raises(SourceReadError, match="the file has no column 'page'"):
        folder.run(schema=None)


NESTED = pa.struct({"a": pa.int64(), "b": pa.string()})


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (pa.struct({"a": pa.int64()}), {"a": 1}),
        (pa.struct({"a": pa.string(), "b": pa.string()}), {"a": "1", "b": "x"}),
        (pa.struct({"A": pa.int32(), "b": pa.string(), "c": pa.int64()}), {"A": 1, "b": "x", "c": 2}),
    ],
)
@pytest.mark.parametrize("within", ["struct", "array", "map"])
def test_should_refuse_parts_of_another_type_and_missing_ones(folder, found, value, within):
    wrap = {
        "struct": ("struct<a: bigint, b: string>", lambda t: t, lambda v: v),
        "array": ("array<struct<a: bigint, b: string>>", pa.list_, lambda v: [v]),
        "map": ("map<string, struct<a: bigint, b: string>>", lambda t: pa.map_(pa.string(), t), lambda v: [("k", v)]),
    }[within]
    schema, kind, made = wrap
    pq.write_table(pa.table({"o": pa.array([made(value)], kind(found))}), folder.path / "a.parquet")
    out = MemoryChannel()
    pipeline = folder.stream(schema=f"o {schema}").to_memory(out).build()
    if "c" in value:
        pipeline.run(folder.options)
        assert out.rows() == [
            {
                "o": {"struct": {"a": 1, "b": "x"}, "array": [{"a": 1, "b": "x"}], "map": {"k": {"a": 1, "b": "x"}}}[
                    within
                ]
            }
        ]
    else:
        with pytest.raises(SourceReadError, match="the file has 'o' as"):
            pipeline.run(folder.options)


def test_should_take_bytes_that_are_no_text_for_bad(folder):
    raw = pa.array([b"/", b"\xff\xfe", b"/"], pa.binary())
    folder.add("a.parquet", 1, 2, 3, page=pa.Array.from_buffers(pa.string(), 3, raw.buffers()), raw=raw)
    kept = folder.run(schema=f"{SCHEMA}, raw string", bad_records="dead_letter")
    assert kept == [{"id": 1, "page": "/", "raw": "/"}, {"id": 3, "page": "/", "raw": "/"}]
    [letter] = dead_letters_of(folder.options.home.dead_letters, "shop", "copy").to_pylist()
    assert (letter["line"], letter["reason"]) == (2, "page: invalid UTF-8")


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_should_refuse_what_is_no_parquet(folder, schema):
    (folder.path / "a.parquet").write_text("id,page\n1,/\n")
    with pytest.raises(SourceReadError, match="not Parquet"):
        folder.run(schema=schema)


def test_should_refuse_a_file_that_changed_after_it_was_read(folder):
    folder.add("a.parquet", 1)
    folder.run()
    folder.add("a.parquet", 1, 2, 3)
    with pytest.raises(DataLossError, match="changed after it was read"):
        folder.run()


def test_should_give_the_place_of_a_row_that_a_step_fails_on(folder):
    folder.add("a.parquet", 1, 0, 3)

    def divided(row):
        return {"id": 6 // row["id"]}

    kept = folder.run(change=lambda s: s.map(divided, schema="id bigint", trace=False), bad_records="quarantine")
    assert [row["id"] for row in kept] == [2, 6]
    [letter] = dead_letters_of(folder.options.home.dead_letters, "shop", "copy").to_pylist()
    assert letter["split"].endswith("in/a.parquet")
    assert (letter["line"], letter["record"]) == (2, '{"id":0,"page":"/"}')


def test_should_take_times_that_python_does_not_have_for_bad(folder):
    far = pa.array([datetime(2026, 1, 1, tzinfo=UTC).timestamp(), 4e11], pa.float64())
    at = pa.array([int(each * 1e6) for each in far.to_pylist()], pa.timestamp("us", tz="UTC"))
    folder.add("a.parquet", 1, 2, at=at)
    kept = folder.run(schema="id bigint, at timestamp", bad_records="dead_letter")
    assert [row["id"] for row in kept] == [1]
    [letter] = dead_letters_of(folder.options.home.dead_letters, "shop", "copy").to_pylist()
    assert "years 1 to 9999" in letter["reason"]


def test_should_show_its_first_rows(folder):
    folder.add("a.parquet", *range(5))
    assert [row["id"] for row in folder.stream().preview(records=3)] == [0, 1, 2]


def test_should_refuse_what_does_not_go_together(folder):
    with pytest.raises(TopologyError, match="Parquet files cannot be followed"):
        folder.stream(tail=True)
    with pytest.raises(ConfigurationError, match="no schema and no input"):
        folder.run(schema=None)
