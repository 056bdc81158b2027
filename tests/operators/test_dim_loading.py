"""What a dimension is loaded from, and loads that are refused."""

import bz2
import csv
import gzip
import json
from asyncio import CancelledError
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine

from rs_assets import Dimension, StreamBuilder
from rs_assets.compile.planner.context import ddl_type
from rs_assets.errors import RsError, SchemaError, SourceReadError, TopologyError
from rs_assets.operators.dimension.database import DatabaseLoader
from rs_assets.operators.dimension.loading import FileLoader, loaded, loader_of
from rs_assets.operators.dimension.spec import FileOrigin

SCHEMA = "k string, tier string"
MOMENT = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.fixture
def load(spark):
    """Loads a dimension, and gives its rows."""

    def rows(dimension):
        schema = ddl_type(dimension.schema, step="users") if dimension.schema is not None else None
        return loaded(loader_of(dimension, spark, str), schema, step="users")[0].to_pylist()

    return rows


def started(dimension, options, **settings):
    rows = StreamBuilder.data_stream("test", "loading").from_array([{"k": "a"}])
    rows.dim_join(dimension, on="k", name="users", **settings).to_print().build().run(options)


def test_csv_as_other_programs_write_it(load, tmp_path):
    rows = [{"k": "a", "tier": 'they say "hi", and go'}, {"k": "b", "tier": "back\\"}, {"k": "c", "tier": "plain"}]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["k", "tier"])
        writer.writeheader()
        writer.writerows(rows)
    assert load(Dimension.from_file(tmp_path / "d.csv", format="csv", schema=SCHEMA)) == rows


def test_csv_fields_are_found_by_name_in_each_file_and_by_place_without_a_header(load, tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    files = {"a": "k,tier\na,1\n", "b": "note,tier,K \n-,2,b\n", "c": "", "d": "tier,k\n"}
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    found = load(Dimension.from_file(folder, format="csv", schema=SCHEMA))
    assert found == [{"k": "a", "tier": "1"}, {"k": "b", "tier": "2"}]
    (folder / "e.csv").write_text("k,level\ne,5\n")
    with pytest.raises(SourceReadError, match="the header has no column 'tier'.*e.csv"):
        load(Dimension.from_file(folder, format="csv", schema=SCHEMA))
    bare = tmp_path / "bare.csv"
    bare.write_text("x,1\ny,2\n")
    with pytest.raises(SourceReadError, match="is not a header"):
        load(Dimension.from_file(bare, format="csv", schema=SCHEMA))
    assert load(Dimension.from_file(bare, format="csv", schema=SCHEMA, header=False)) == [
        {"k": "x", "tier": "1"},
        {"k": "y", "tier": "2"},
    ]
    with pytest.raises(SourceReadError, match="would be read as a record"):
        load(Dimension.from_file(folder / "a.csv", format="csv", schema=SCHEMA, header=False))
    # The format is that of the ending.
    assert load(Dimension.from_file(bare, schema=SCHEMA, header=False)) == [
        {"k": "x", "tier": "1"},
        {"k": "y", "tier": "2"},
    ]
    bare.write_text("k,tier,note\na,1\n")
    with pytest.raises(SourceReadError, match="(?i)malformed"):
        load(Dimension.from_file(bare, format="csv", schema=SCHEMA))


@pytest.mark.parametrize("name", ["u[1].jsonl", "u{a}.jsonl", "u?.jsonl", "u%20#.jsonl"])
def test_a_file_is_found_by_its_name_and_no_other(load, tmp_path, name):
    for other in ("u1.jsonl", "ua.jsonl", "ub.jsonl"):
        (tmp_path / other).write_text('{"k": "a", "tier": "wrong"}\n')
    (tmp_path / name).write_text('{"k": "a", "tier": "right"}\n')
    assert load(Dimension.from_file(tmp_path / name, schema=SCHEMA)) == [{"k": "a", "tier": "right"}]
    (tmp_path / name).rename(tmp_path / "_hidden.jsonl")
    with pytest.raises(SourceReadError, match="skips files"):
        load(Dimension.from_file(tmp_path / "_hidden.jsonl", schema=SCHEMA, may_be_empty=True))


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_folder_is_read_with_the_files_below_it(load, spark, tmp_path, form):
    """Each once, whatever the folders are called, and also those below links."""
    folder, other = tmp_path / "d", tmp_path / "other"
    for n, place in enumerate((folder, folder / "sub", folder / "tier=9", folder / "_tmp", other)):
        place.mkdir()
        write = pq.write_table if form == "parquet" else pacsv.write_csv if form == "csv" else write_lines
        write(pa.table({"k": [f"{n}"], "tier": [f"t{n}"]}), place / f"rows.{form}")
    (folder / "link").symlink_to(other)
    dimension = Dimension.from_file(folder, format=form, schema=SCHEMA)
    expected = [{"k": f"{n}", "tier": f"t{n}"} for n in (0, 1, 2, 4)]
    assert sorted(load(dimension), key=lambda row: row["k"]) == expected
    before = FileLoader(dimension.origin, spark).mark()
    write(pa.table({"k": ["5"], "tier": ["t5"]}), other / f"more.{form}")
    assert FileLoader(dimension.origin, spark).mark() != before


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "inferred"])
@pytest.mark.parametrize("other", [{"k": ["b"]}, {"K": ["b"], "tier": ["2"]}], ids=["lacking", "another case"])
def test_each_file_of_parquet_has_the_fields(load, tmp_path, schema, other):
    """Arrow would give nulls in their place."""
    pq.write_table(pa.table({"k": ["a"], "tier": ["1"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(other), tmp_path / "2.parquet")
    dimension = Dimension.from_file(tmp_path, format="parquet", schema=schema)
    with pytest.raises(SourceReadError, match=r"the file has no column '(k|tier)'.*2.parquet") as refused:
        load(dimension)
    assert "write it with that column" in refused.value.remedy
    pq.write_table(pa.table({"more": [1], "tier": ["2"], "k": ["b"]}), tmp_path / "2.parquet")
    assert load(dimension) == [{"k": "a", "tier": "1"}, {"k": "b", "tier": "2"}]


def write_lines(table, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([0.5]), "boolean"),
        (pa.array([True]), "bigint"),
        (pa.array([5]), "string"),
        (pa.array(["5"]), "bigint"),
        (pa.array([5]), "timestamp"),
        (pa.array([1e300]), "float"),
        (pa.array([MOMENT]), "date"),
        (pa.array([{"b": 1}]), "struct<a:bigint>"),
    ],
    ids=lambda each: str(each.type if isinstance(each, pa.Array) else each),
)
@pytest.mark.parametrize("made_by", ["function", "file"])
def test_a_column_that_its_type_would_change_is_refused(load, tmp_path, values, kind, made_by):
    rows, schema = pa.table({"k": ["a"], "v": values}), f"k string, v {kind}"
    pq.write_table(rows, tmp_path / "rows.parquet")
    file = Dimension.from_file(tmp_path / "rows.parquet", format="parquet", schema=schema)
    with pytest.raises(SchemaError, match="field 'v' of the dimension of step 'users' does not fit its type"):
        load(Dimension.from_loader(lambda: rows, schema=schema) if made_by == "function" else file)


@pytest.mark.parametrize(("first", "second", "read"), [(True, 0.5, None), ("x", 5, None), (1, True, None), (1.0, 2, 2)])
def test_a_column_has_the_type_of_the_first_file(load, tmp_path, first, second, read):
    for name, value in (("1", first), ("2", second)):
        pq.write_table(pa.table({"k": [name], "v": [value]}), tmp_path / f"{name}.parquet")
    dimension = Dimension.from_file(tmp_path, format="parquet")
    if read is not None:
        assert [row["v"] for row in load(dimension)] == [first, read]
        return
    with pytest.raises(SourceReadError, match=r"the column 'v' of the file is .*2.parquet") as refused:
        load(dimension)
    assert "the type that the other files have" in refused.value.remedy
    pq.write_table(pa.table({"k": ["2"], "v": [first]}), tmp_path / "2.parquet")
    assert [row["v"] for row in load(dimension)] == [first, first]


def test_a_column_of_another_type_is_taken_if_it_keeps_its_values(load):
    rows = pa.table({"k": ["a"], "v": pa.array([5], pa.int32()), "w": pa.array([2.0]), "x": pa.array([None])})
    schema = "k string, v bigint, w int, x date"
    assert load(Dimension.from_loader(lambda: rows, schema=schema)) == [{"k": "a", "v": 5, "w": 2, "x": None}]


def test_a_folder_has_changed_when_one_of_its_files_has(spark, tmp_path):
    loader = FileLoader(Dimension.from_file(tmp_path, schema=SCHEMA).origin, spark)
    (tmp_path / "one.jsonl").write_text("{}\n")
    marks = [loader.mark()]
    (tmp_path / "sub").mkdir()
    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "sub" / "two.pq")
    marks.append(loader.mark())
    (tmp_path / "_SUCCESS").write_text("")
    assert loader.mark() == marks[1] != marks[0]


def test_a_record_that_cannot_be_used_is_named_by_its_file_and_line(load, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"k": "a", "age": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"k": "b", "age": 1}\n\n{"k": "c", "age": "old"}\n{"k": "d", "age": "new"}\n')
    with pytest.raises(SourceReadError, match=r"line 3 of \S*b.jsonl cannot be used: .*age") as refused:
        load(Dimension.from_file(tmp_path, schema="k string, age bigint"))
    assert "correct the line" in refused.value.remedy
    (tmp_path / "b.jsonl").write_text('{"k": "b", "age": 1}\n\n{"k": "c", "age": 2}\n')
    found = load(Dimension.from_file(tmp_path, schema="k string, age bigint"))
    assert sorted((row["k"], row["age"]) for row in found) == [("a", 1), ("b", 1), ("c", 2)]


JUDGED = [
    ("d.jsonl", "v double", b'{"v": 1e400}\n', "larger than its type holds"),
    ("d.jsonl", "v float", b'{"v": 1e39}\n', "larger than its type holds"),
    ("d.jsonl", "v date", b'{"v": "10000-01-01"}\n', "years 1 to 9999"),
    ("d.jsonl", "v timestamp", b'{"v": 99999999999999}\n', "years 1 to 9999"),
    ("d.jsonl", "v timestamp", b'{"v": "12:30"}\n', "a time of day without a date"),
    ("d.jsonl", "v string", b'{"v": "\\ud800"}\n', "surrogate pair"),
    ("d.jsonl", "v string", b'{"v": "\xff"}\n', "invalid UTF-8"),
    ("d.jsonl", "v map<string,int>", b'{"v": {"a": 1, "a": 2}}\n', "twice in a map"),
    ("d.jsonl", "v int", b'[{"v": 1}]\n', "malformed JSON"),
    ("d.csv", "v double", b"v\n1e400\n", "larger than its type holds"),
    ("d.csv", "v date", b"v\n19000\n", "years 1 to 9999"),
    ("d.csv", "v timestamp", b"v\n12:30\n", "a time of day without a date"),
    ("d.csv", "v string", b"v\n\xff\n", "invalid UTF-8"),
    ("d.csv", "v string, w int", b'v,w\na"b,1\n', "a quote is not closed"),
    ("d.csv", "v string, w int", b"v,w\na\n", "malformed CSV"),
]


@pytest.mark.parametrize(("name", "schema", "text", "words"), JUDGED, ids=[f"{t}"[2:-3] for _n, _s, t, _w in JUDGED])
def test_records_are_judged_as_those_of_a_source(load, tmp_path, name, schema, text, words):
    (tmp_path / name).write_bytes(text)
    with pytest.raises(SourceReadError, match=f"cannot be used: .*{words}"):
        load(Dimension.from_file(tmp_path / name, schema=schema))


def test_a_packed_file_is_unpacked_and_one_that_nothing_unpacks_is_refused(load, tmp_path):
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"k,tier\na,1\n"))
    assert load(Dimension.from_file(tmp_path / "d.csv.gz", format="csv", schema=SCHEMA)) == [{"k": "a", "tier": "1"}]
    (tmp_path / "d.csv.bz2").write_bytes(bz2.compress(b"k,tier\na,1\n"))
    with pytest.raises(SourceReadError, match="ending in .bz2 are not read"):
        load(Dimension.from_file(tmp_path / "d.csv.bz2", format="csv", schema=SCHEMA))


@pytest.mark.parametrize("error", [SystemExit, CancelledError])
def test_a_loader_that_would_end_its_thread_is_a_load_that_fails(load, error):
    def leave():
        raise error

    with pytest.raises(SourceReadError, match=error.__name__):
        load(Dimension.from_loader(leave, schema=SCHEMA))


UNSIGNED = pa.array([1], pa.uint64())
# Rows, settings, what is refused, words of the remedy, and what they make of both.
REFUSED = [
    ([], {"may_be_empty": True}, "no field 'k'", "declare its schema", [], {"may_be_empty": True, "schema": SCHEMA}),
    ([{"tier": "a"}], {}, "no field 'k'", "name its fields in on=", [{"tier": "a", "k": "b"}], {}),
    (
        pa.table({"k": ["a"], "n": UNSIGNED}),
        {},
        "type that Spark does not know",
        "declare a schema with types of Spark",
        pa.table({"k": ["a"], "n": UNSIGNED}),
        {"schema": "k string, n bigint"},
    ),
    (
        [{"tier": "a"}, {"k": "", "tier": "b"}],
        {"schema": SCHEMA},
        "has no row with a key",
        "may_be_empty=True",
        [{"tier": "a"}, {"k": "", "tier": "b"}],
        {"schema": SCHEMA, "may_be_empty": True},
    ),
    ([{"k": "a", "_rs_line": 1}], {}, "whose prefix is reserved", "rename it", [{"k": "a", "line": 1}], {}),
]


@pytest.mark.parametrize(("rows", "settings", "told", "words", "better", "mended"), REFUSED, ids=str)
def test_rows_that_cannot_be_looked_up_refuse_the_start(options, rows, settings, told, words, better, mended):
    with pytest.raises(RsError, match=told) as refused:
        started(Dimension.from_loader(lambda: rows, **settings), options)
    assert words in refused.value.remedy
    started(Dimension.from_loader(lambda: better, **mended), options)


def test_a_table_that_is_not_there_refuses_the_start(options, tmp_path):
    with pytest.raises(SourceReadError, match="cannot be found"):
        started(Dimension.from_delta(tmp_path / "none"), options)


def test_fields_that_would_be_hidden_do_not_build():
    users = Dimension.from_file("users.jsonl", schema=SCHEMA)
    rows = StreamBuilder.data_stream("test", "loading").from_array([{"k": "a"}])
    with pytest.raises(TopologyError, match="prefix '_rs_'.*hides"):
        rows.dim_join(users, on="k", prefix="_rs_")


def test_errors_of_a_driver_show_no_secret(monkeypatch):
    def fail(self, engine, schema):
        raise RuntimeError("no login with s3cr3t")

    monkeypatch.setattr(DatabaseLoader, "_rows", fail)
    monkeypatch.setattr("rs_assets.operators.dimension.database.engine_of", lambda url, **_: create_engine("sqlite://"))
    origin = Dimension.from_database("postgresql://reader:s3cr3t@db/x", table="users").origin
    with pytest.raises(SourceReadError) as caught:
        loaded(DatabaseLoader(origin), None, step="users")
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_spark_would_pass_over_gets_another_name(load, tmp_path):
    (tmp_path / "_d.csv").write_text("k,tier\na,1\n")
    with pytest.raises(SourceReadError, match="Spark skips files") as refused:
        load(Dimension.from_file(tmp_path / "_d.csv", format="csv", schema=SCHEMA))
    assert refused.value.remedy == "give the dimension's file another name"
    (tmp_path / "_d.csv").rename(tmp_path / "d.csv")
    assert load(Dimension.from_file(tmp_path / "d.csv", format="csv", schema=SCHEMA)) == [{"k": "a", "tier": "1"}]


def test_a_file_that_changes_while_it_is_read_is_replaced_by_a_rename(tmp_path, monkeypatch):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"k": ["a"]}), path)
    loader, read = FileLoader(FileOrigin(str(path), "parquet"), None), FileLoader._parquet

    def meanwhile(self, schema):
        found = read(self, schema)
        pq.write_table(pa.table({"k": ["b", "c"]}), path)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(FileLoader, "_parquet", meanwhile)
        with pytest.raises(SourceReadError, match="the file was changed while it was read") as refused:
            loader.load(None)
    assert refused.value.remedy == "write a new file next to it and rename it"
    pq.write_table(pa.table({"k": ["d"]}), tmp_path / "new.parquet")
    (tmp_path / "new.parquet").rename(path)
    assert loader.load(None).to_pylist() == [{"k": "d"}]


def test_fields_of_one_name_in_a_query_are_named_apart(tmp_path):
    url = Dimension.from_database(f"sqlite:///{tmp_path / 'd.db'}", sql="SELECT 'a' AS k, 'b' AS k").origin
    with pytest.raises(SchemaError, match="two fields of one name: k, k") as refused:
        DatabaseLoader(url).load(None)
    assert refused.value.remedy == "name them with AS"
    named = Dimension.from_database(f"sqlite:///{tmp_path / 'd.db'}", sql="SELECT 'a' AS k, 'b' AS tier").origin
    assert DatabaseLoader(named).load(None).to_pylist() == [{"k": "a", "tier": "b"}]
