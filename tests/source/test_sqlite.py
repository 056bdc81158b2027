"""A table of SQLite as a source: exact offsets over restarts, batches read again, rows that are bad or gone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.source import Lag
from rs_assets.connectors.sqlite.table import LEAST, Offset
from rs_assets.dagster.sensors.inputs import ends_of, watched
from rs_assets.errors import BadRecordError, CheckpointError, DataLossError, SchemaError, SourceReadError, TopologyError

SCHEMA = "id bigint, page string, ms bigint"


class Table:
    """A table `hits`, and a pipeline that copies it; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, folder, options):
        self.path = folder / "shop.db"
        self.batches = []
        self.options = replace(options, on_progress=self.batches.append)
        self.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY AUTOINCREMENT, page TEXT, ms INTEGER)")

    def execute(self, sql, *rows):
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany(sql, rows) if rows else database.execute(sql)

    def add(self, *ms, page="/"):
        self.execute("INSERT INTO hits (page, ms) VALUES (?, ?)", *((page, each) for each in ms))

    def stream(self, **source):
        return StreamBuilder.data_stream("shop", "hits").from_sqlite(self.path, "hits", **({"schema": SCHEMA} | source))

    def run(self, **source):
        out = MemoryChannel()
        self.stream(**source).to_memory(out).build().run(self.options)
        return out.rows()

    def keys(self, **source):
        return [row["id"] for row in self.run(**source)]

    @property
    def log(self):
        return CheckpointLog(self.options.home.job("shop", "hits") / "g0001" / "sqlite" / "checkpoint")

    def forget_last_commit(self):
        """As after a kill: the last batch was planned, and Spark has not committed it."""
        last = self.log.last_committed()
        for name in (str(last), f".{last}.crc"):
            (self.log.folder / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def table(tmp_path, options):
    return Table(tmp_path, options)


def test_should_read_each_row_once_over_restarts(table):
    table.add(5, 7)
    assert table.run() == [{"id": 1, "page": "/", "ms": 5}, {"id": 2, "page": "/", "ms": 7}]
    assert table.keys() == []
    table.add(9)
    # What was read may go.
    table.execute("DELETE FROM hits WHERE id < 3")
    assert table.keys() == [3]
    assert Offset.load(table.batches[-1].offsets["sqlite"]) == Offset(3, 3)


def test_should_say_once_that_it_goes_on_at_another_place(table):
    table.add(1, 2)
    assert table.keys() == [1, 2]
    former, table.path = table.path, table.path.with_name("other.db")
    table.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY AUTOINCREMENT, page TEXT, ms INTEGER)")
    table.add(7, 8, 9)
    out = MemoryChannel()
    pipeline = table.stream().to_memory(out).build()
    (warning,) = pipeline.run(table.options).warnings
    assert warning.startswith(f"the source 'sqlite' reads sqlite {table.path} hits, and goes on after what it has read")
    assert f"of sqlite {former} hits: what is there" in warning
    assert [row["id"] for row in out.rows()] == [3]
    assert pipeline.run(table.options).warnings == ()


def test_should_plan_batches_of_bounded_size(table):
    table.add(*range(7))
    assert sorted(table.keys(max_rows_per_batch=3)) == [1, 2, 3, 4, 5, 6, 7]
    assert [batch.rows_in for batch in table.batches] == [3, 3, 1]


def test_should_read_a_batch_that_was_cut_off_again_and_no_other_rows(table):
    table.add(1, 2)
    table.run()
    table.add(3)
    assert table.keys() == [3]
    table.forget_last_commit()
    table.add(4)
    # The planned batch comes again just as it was, and then what was added.
    assert table.keys() == [3, 4]
    assert [batch.rows_in for batch in table.batches[-2:]] == [1, 1]


CHANGED = {
    "DELETE FROM hits WHERE id = 3": "INSERT INTO hits VALUES (3, '/', 3)",
    "INSERT INTO hits (id, ms) VALUES (-1, 0)": "DELETE FROM hits WHERE id = -1",
}


@pytest.mark.parametrize("change", CHANGED)
def test_should_refuse_a_planned_batch_whose_rows_are_not_the_same_any_more(table, change):
    table.add(1, 2, 3)
    table.run()
    table.forget_last_commit()
    table.execute(change)
    with pytest.raises(DataLossError, match="planned with 3 rows of the table 'hits'") as refused:
        table.run()
    assert "put them back as they were, or begin a new generation (--new-generation)" in refused.value.remedy
    table.execute(CHANGED[change])
    assert table.keys() == [1, 2, 3]


def test_should_refuse_a_table_that_would_give_keys_away_again(table):
    table.execute("DROP TABLE hits")
    table.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY, page TEXT, ms INTEGER)")
    table.add(1, 2)
    table.run()
    table.execute("DELETE FROM hits")
    with pytest.raises(DataLossError, match="read up to the key 2 and ends before it") as refused:
        table.run()
    assert (
        "put its rows back; or, if they were removed on purpose, let the key be AUTOINCREMENT" in refused.value.remedy
    )
    table.add(1, 2)
    assert table.keys() == []
    table.execute("DROP TABLE hits")
    table.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY AUTOINCREMENT, page TEXT, ms INTEGER)")
    table.add(7)
    table.options = replace(table.options, new_generation=True)
    assert table.keys() == [1]


def test_should_refuse_rows_that_came_with_keys_that_were_passed(table):
    table.add(1, 2)
    assert table.keys() == [1, 2]
    # A row that is changed keeps its key, and one that was read may go.
    table.execute("UPDATE hits SET ms = 9 WHERE id = 1")
    assert table.keys() == []
    table.execute("INSERT INTO hits (id, ms) VALUES (-1, 0)")
    with pytest.raises(DataLossError, match="1 row of the table 'hits' came with keys below 2"):
        table.run()
    table.execute("UPDATE hits SET id = 3 WHERE id = -1")
    assert table.keys() == [3]


def test_should_know_the_end_of_a_counting_table_that_was_emptied(table):
    table.add(1, 2)
    table.run()
    table.execute("DELETE FROM hits")
    assert table.keys() == []
    table.add(3)
    assert table.keys() == [3]


def test_should_send_a_value_of_another_type_to_the_dead_letters(table):
    table.add(1, "soon", 3)
    table.execute("INSERT INTO hits (page, ms) VALUES (CAST(x'ff' AS TEXT), 4)")
    assert table.keys(bad_records="dead_letter") == [1, 3]
    letters = DeltaTable(table.options.home.dead_letters).to_pyarrow_table().sort_by("line").to_pylist()
    assert [(row["split"], row["line"], row["reason"]) for row in letters] == [
        ("hits", 2, "ms: 'soon' is not of type bigint"),
        ("hits", 4, "invalid UTF-8"),
    ]
    assert letters[0]["record"] == '{"id": 2, "page": "/", "ms": "soon"}'


def test_should_name_the_row_that_cannot_be_used_and_go_on_once_it_is_mended(table):
    table.add(1, "soon")
    with pytest.raises(BadRecordError, match="ms: 'soon' is not of type") as raised:
        table.run()
    assert (raised.value.facts["split"], raised.value.facts["line"]) == ("hits", 2)
    assert raised.value.remedy == "correct the input, or choose bad_records='dead_letter' or 'skip'"
    table.execute("UPDATE hits SET ms = 2 WHERE id = 2")
    assert table.keys() == [1, 2]


def test_should_infer_the_schema_of_the_table_and_read_all_its_types(table):
    table.execute("DROP TABLE hits")
    table.execute(
        "CREATE TABLE hits (id INTEGER PRIMARY KEY, a BOOLEAN, b REAL, c VARCHAR(9), d BLOB, e DATETIME, f DATE, g)"
    )
    row = (1, 0.5, "é", b"\xff\0", "2024-03-01 12:00:00", "2024-03-01", 7)
    table.execute("INSERT INTO hits (a, b, c, d, e, f, g) VALUES (?, ?, ?, ?, ?, ?, ?)", row, (None,) * 7)
    first, second = table.run(schema=None)
    assert (first["id"], first["a"], first["b"], first["c"], bytes(first["d"])) == (1, True, 0.5, "é", b"\xff\0")
    assert (first["e"].isoformat()[:19], first["f"].isoformat(), first["g"]) == (
        "2024-03-01T12:00:00",
        "2024-03-01",
        "7",
    )
    assert set(second.values()) == {2, None}


def test_should_refuse_what_cannot_be_read(table):
    with pytest.raises(SchemaError, match="no column 'pages'") as refused:
        table.run(schema="id bigint, pages string")
    assert "id, page, ms" in refused.value.remedy
    stream = StreamBuilder.data_stream("shop", "none")
    with pytest.raises(SourceReadError, match="no table 'nothing'"):
        stream.from_sqlite(table.path, "nothing", schema=SCHEMA).to_print().build().run(table.options)
    table.execute("CREATE TABLE loose (id INTEGER, ms INTEGER)")
    stream = StreamBuilder.data_stream("shop", "loose")
    with pytest.raises(SourceReadError, match="no INTEGER PRIMARY KEY"):
        stream.from_sqlite(table.path, "loose", schema=SCHEMA).to_print().build().run(table.options)


def test_should_refuse_a_database_that_is_not_there(tmp_path, options):
    stream = StreamBuilder.data_stream("shop", "none").from_sqlite(tmp_path / "no.db", "hits", schema=SCHEMA)
    with pytest.raises(SourceReadError, match="unable to open") as refused:
        stream.to_print().build().run(options)
    assert "no.db" in str(refused.value.facts["database"])
    assert not (tmp_path / "no.db").exists()


def test_should_refuse_names_and_limits_that_make_no_sense():
    source = StreamBuilder.data_stream("shop", "none")
    for bad in ({"table": ""}, {"table": "sqlite_master"}, {"table": "t", "max_rows_per_batch": 0}):
        with pytest.raises(TopologyError):
            source.from_sqlite("a.db", **bad)


def test_should_show_sensors_how_far_the_table_goes(table):
    topology = table.stream().to_print().build().topology
    table.add(1, 2, 3)
    assert ends_of(watched(topology)) == {"sqlite": {"hits": 3}}
    reader = reader_of(topology["sqlite"])
    assert reader.lag(Offset(1, 1).text, timedelta(seconds=1)) == Lag(records=2)
    assert reader.lag(None, timedelta(seconds=1)) == Lag(records=3)


def test_should_say_what_is_no_offset():
    assert Offset.load(None) == Offset(LEAST, 0)
    with pytest.raises(CheckpointError, match="not an offset of a SQLite table"):
        Offset.load('{"orders": {"0": 1}}')
