"""Tables that are polled: rows in, rows out; rows of slow transactions are not lost; what is not exact is refused."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Column, types
from sqlalchemy.sql.elements import quoted_name

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.database.polled import TablePoll, lines_of
from rs_assets.connectors.own.lines import line_of
from rs_assets.errors import ConfigurationError, SchemaError, SourceReadError, TopologyError


def poll_of(url, column, *, lag=None, rows=100, table="events"):
    place = Place(hidden(url), "events")
    return TablePoll(place=place, table=table, column=column, lag=lag, rows=rows, every=timedelta(seconds=1), keep=10)


def read(poll, cursor=None):
    """All rows there are now, by as many polls as it takes, and the last cursor."""
    found = []
    while True:
        rows, after = poll.poll(cursor)
        if not rows:
            return found, after
        found.append([json.loads(row)["n"] for row in rows])
        cursor = after


@pytest.mark.canary
def test_rows_of_a_slow_transaction_should_not_be_lost(postgres, database):
    postgres.execute(database, "CREATE TABLE events (n int, xid xid8 NOT NULL DEFAULT pg_current_xact_id())")
    poll = poll_of(database, "xid")
    with postgres.connected(database) as slow:
        slow.execute("BEGIN")
        slow.execute("INSERT INTO events VALUES (1)")
        postgres.execute(database, "INSERT INTO events VALUES (2)")
        # By a number that grows, 2 would be read now, and 1 never.
        found, cursor = read(poll)
        assert found == []
        slow.execute("COMMIT")
    found, cursor = read(poll, cursor)
    assert found == [[1, 2]]
    postgres.execute(database, "INSERT INTO events SELECT n FROM generate_series(3, 5) n")
    for n in range(6, 10):
        postgres.execute(database, "INSERT INTO events VALUES (%s)", (n,))
    # Rows of one transaction stay together.
    assert read(poll_of(database, "xid", rows=2), cursor)[0] == [[3, 4, 5], [6, 7], [8, 9]]


def test_a_transaction_of_more_rows_than_a_poll_is_one_poll(postgres, database):
    postgres.execute(database, "CREATE TABLE events (n int, xid xid8 NOT NULL DEFAULT pg_current_xact_id())")
    postgres.execute(database, "INSERT INTO events SELECT n FROM generate_series(1, 3) n")
    # Other transactions have ended since the first number: an empty poll looked like the end of the table.
    assert read(poll_of(database, "xid", rows=2))[0] == [[1, 2, 3]]


@pytest.mark.long
def test_rows_are_read_when_they_are_as_old_as_the_lag(postgres, database):
    postgres.execute(database, "CREATE TABLE events (n int, at timestamptz, local timestamp)")
    for n, ago in ((1, "2 hours"), (2, "2 hours"), (3, "90 minutes"), (4, "1 minute")):
        postgres.execute(
            database, f"INSERT INTO events VALUES ({n}, date_trunc('hour', now()) - interval '{ago}',"
            f" date_trunc('hour', localtimestamp) - interval '{ago}')"
        )  # fmt: skip
    postgres.execute(database, "UPDATE events SET at = now(), local = localtimestamp WHERE n = 4")
    for column in ("at", "local"):
        found, cursor = read(poll_of(database, column, lag=timedelta(minutes=30), rows=1))
        assert found == [[1, 2], [3]]
        assert read(poll_of(database, column, lag=timedelta(minutes=30)), cursor)[0] == []
        assert read(poll_of(database, column, lag=timedelta(microseconds=1)), cursor)[0] == [[4]]


def test_numbers_and_texts_of_sqlite_are_those_that_it_has(tmp_path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.execute(
            "CREATE TABLE events (n INTEGER PRIMARY KEY, a DECIMAL(10,2), b NUMERIC, c NUMERIC(30,15), d JSON, e TIME)"
        )
        shop.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
            [(1, 12.5, 2**53 + 1, 1.2345e-11, '{"a": 0.12345678901234567890}', "10:00:00"),
             (2, 12.345, 1, None, '"abc"', None), (3, -7, 0.1, 1, "null", "23:59:59.5")],
        )  # fmt: skip
    rows, _ = poll_of(f"sqlite:///{path}", "n").poll(None)
    assert [[*json.loads(row).values()] for row in rows] == [
        [1, "12.50", "9007199254740993", "0.000000000012345", '{"a": 0.12345678901234567890}', "10:00:00"],
        [2, "12.345", "1", None, '"abc"', None],
        [3, "-7.00", "0.1", "1.000000000000000", "null", "23:59:59.500000"],
    ]


ODD = (
    float("nan"), float("inf"), -0.0, 1e-12, 1.5, 0, 2**53 + 1, 2**64, -(2**63), True, None, "", 'ü "\\\n\0', "\udcff",
    b"\0\xff", date(44, 3, 15), datetime(2024, 3, 1, 12), datetime(1, 1, 1, 0, 0, 0, 5), Decimal("1.10"),  # noqa: DTZ001
)  # fmt: skip


@pytest.mark.parametrize("kind", [types.String(), types.Integer(), types.Float(), types.LargeBinary(), types.Date()])
@pytest.mark.parametrize("value", ODD)
def test_a_value_of_any_kind_is_written_as_in_any_other_source(kind, value):
    """No number becomes null, and none loses digits: databases without strict types have any value in any column."""
    name = quoted_name('a "b"', quote=True)
    (made,) = lines_of([(7, value)], [Column("n", types.Integer()), Column(name, kind)], loose=True)
    found, wanted = (
        json.loads(line.decode(errors="surrogateescape"), parse_float=Decimal, parse_constant=str)
        for line in (made, line_of({"n": 7, name: value}))
    )
    assert found == wanted


def test_texts_of_postgres_are_as_it_writes_them(postgres, database):
    postgres.execute(
        database, "CREATE TABLE events (n int, a jsonb, b json, c time, d interval, e inet, f uuid, g text, h numeric,"
        " i int[], xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )  # fmt: skip
    postgres.execute(
        database, "INSERT INTO events VALUES (1, '{\"x\": 0.12345678901234567890}', '\"ü\"', '10:00', '1 mon 2 days',"
        " '10.0.0.1', '00000000-0000-0000-0000-000000000001', 'ü', 1.10, '{1,2}')"
    )  # fmt: skip
    (line,), _ = poll_of(database, "xid").poll(None)
    row = json.loads(line)
    assert {name: row[name] for name in "abcdefgi"} == {
        "a": '{"x": 0.12345678901234567890}', "b": '"ü"', "c": "10:00:00", "d": "1 mon 2 days", "e": "10.0.0.1/32",
        "f": "00000000-0000-0000-0000-000000000001", "g": "ü", "i": "[1, 2]",
    }  # fmt: skip
    assert row["h"] == "1.10"


def test_times_that_come_twice_when_clocks_are_set_back_are_refused(postgres, database):
    ((name,),) = postgres.execute(database, "SELECT current_database()")
    postgres.execute(database, "CREATE TABLE events (n int, at timestamptz, local timestamp)")
    postgres.execute(database, f"ALTER DATABASE \"{name}\" SET timezone = 'Europe/Berlin'")
    with pytest.raises(ConfigurationError, match="come twice") as refused:
        read(poll_of(database, "local", lag=timedelta(minutes=59)))
    assert "lag=timedelta(hours=1, minutes=5)" in refused.value.remedy
    assert read(poll_of(database, "local", lag=timedelta(hours=1, minutes=5))) == ([], None)
    assert read(poll_of(database, "at", lag=timedelta(minutes=5))) == ([], None)
    postgres.execute(database, f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Tokyo'")
    assert read(poll_of(database, "local", lag=timedelta(minutes=5))) == ([], None)


def test_what_is_not_exact_is_refused(postgres, database, tmp_path):
    postgres.execute(database, "CREATE TABLE events (n bigserial PRIMARY KEY, at timestamptz DEFAULT now())")
    for column, lag in (("n", None), ("n", timedelta(minutes=1)), ("at", None)):
        with pytest.raises(ConfigurationError, match="can appear late") as refused:
            read(poll_of(database, column, lag=lag))
        assert "lag=timedelta(minutes=5)" in refused.value.remedy
    statement = refused.value.remedy.split(", and column=")[0]
    postgres.execute(database, statement)
    postgres.execute(database, "INSERT INTO events DEFAULT VALUES")
    assert read(poll_of(database, "xid"))[0] == [[1]]
    with pytest.raises(SchemaError, match="no column 'nope'") as lacking:
        read(poll_of(database, "nope"))
    assert "n, at, xid" in lacking.value.remedy
    with pytest.raises(SourceReadError, match="no table") as gone:
        read(poll_of(database, "n", table="none"))
    assert "shop.orders" in gone.value.remedy
    begin = StreamBuilder.data_stream("shop", "events")
    with pytest.raises(TopologyError, match="would read its own rows"):
        begin.from_database(database, "events", column="n").to_database(database, "events").build()
    for wrong in ({"lag": 5}, {"every": 1}, {"keep": 0}, {"max_rows_per_batch": 0}, {"column": ""}):
        with pytest.raises(TopologyError):
            begin.from_database(database, "events", **{"column": "n", **wrong})


@pytest.mark.long
def test_rows_without_a_value_in_the_column_are_refused(tmp_path, options):
    path, out = tmp_path / "shop.db", MemoryChannel()

    def do(statement):
        with closing(sqlite3.connect(path)) as shop, shop:
            shop.execute(statement)

    do("CREATE TABLE events (n INTEGER, page TEXT)")
    do("INSERT INTO events VALUES (1, '/'), (NULL, '/late')")
    stream = StreamBuilder.data_stream("shop", "events").from_database(f"sqlite:///{path}", "events", column="n")
    pipeline = stream.to_memory(out).build()
    with pytest.raises(SourceReadError, match="have no value in the column 'n'"):
        pipeline.run(options)
    do("UPDATE events SET n = 2 WHERE n IS NULL")
    pipeline.run(options)
    assert sorted(row["n"] for row in out.rows()) == [1, 2]


@pytest.mark.long
def test_a_pipeline_reads_each_row_once(tmp_path, options):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as shop:
        shop.execute("CREATE TABLE events (n INTEGER PRIMARY KEY, page TEXT, price REAL, raw BLOB)")
        shop.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", [(n, "/ü", 1.5, b"\xff") for n in range(5)])
    shop.close()

    def rows():
        out = MemoryChannel()
        stream = StreamBuilder.data_stream("shop", "events").from_database(
            f"sqlite:///{path}", "events", column="n", max_rows_per_batch=2
        )
        stream.to_memory(out).build().run(options)
        return sorted(out.rows(), key=lambda row: row["n"])

    first = rows()
    assert [row["n"] for row in first] == [*range(5)]
    assert first[0] == {"n": 0, "page": "/ü", "price": 1.5, "raw": b"\xff"}
    with sqlite3.connect(path) as shop:
        shop.execute("INSERT INTO events (n) VALUES (7)")
    shop.close()
    assert [row["n"] for row in rows()] == [7]
