"""Tables that are polled: rows in, rows out; rows of slow transactions are not lost; what is not exact is refused."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from unittest.mock import patch

import pytest
from sqlalchemy import Column, types
from sqlalchemy.sql.elements import quoted_name

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.database.polled import TablePoll, _field, lines_of
from rs_assets.connectors.own.lines import Lines, line_of
from rs_assets.connectors.own.polling import POLL_SPLIT, PollPlan
from rs_assets.connectors.own.spool import Spool
from rs_assets.errors import ConfigurationError, DataLossError, SchemaError, SourceReadError, TopologyError


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


@pytest.mark.parametrize("removed", ["n = 3", "true"])
def test_numbers_that_sqlite_gives_again_are_not_passed_over(tmp_path, removed):
    """A table whose rows are removed once they were read, as an outbox; AUTOINCREMENT gives no number again."""
    rows = [(n,) for n in (1, 2, 3)]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        for table, kind in (("outbox", "INTEGER PRIMARY KEY"), ("kept", "INTEGER PRIMARY KEY AUTOINCREMENT")):
            shop.execute(f"CREATE TABLE {table} (n {kind}, what TEXT)")
            shop.executemany(f"INSERT INTO {table} (n) VALUES (?)", rows)
    again, kept = (poll_of(f"sqlite:///{tmp_path}/shop.db", "n", table=table) for table in ("outbox", "kept"))
    cursors = [read(poll)[1] for poll in (again, kept)]
    assert cursors == [3, 3]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        for table in ("outbox", "kept"):
            shop.execute(f"DELETE FROM {table} WHERE {removed}")
    assert read(kept, 3) == ([], 3)
    with pytest.raises(DataLossError, match="SQLite gives the numbers of removed rows to new rows"):
        again.poll(3)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("INSERT INTO kept (what) VALUES ('new')")
    assert read(kept, 3)[1] == 4


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
        "f": "00000000-0000-0000-0000-000000000001", "g": "ü", "i": "[1,2]",
    }  # fmt: skip
    assert row["h"] == "1.10"


# Columns of each type, and rows of them: usual values, odd ones, and none.
TYPES = {
    "ok": "boolean", "small": "smallint", "whole": "int", "large": "bigint", "real4": "real", "real8": "float",
    "any_number": "numeric", "cents": "numeric(20, 2)", "name": "text", "short": "varchar(9)", "fixed": "char(5)",
    "raw": "bytea", "day": "date", "at": "timestamptz", "local": "timestamp", "clock": "time", "id": "uuid",
    "doc": "jsonb", "mood": "mood", "span": "tstzrange", 'a "b" %s {}': "text", "internal": '"char"', "nick": "name",
}  # fmt: skip
ROWS = (
    ("true", "-7", "8", "9007199254740993", "0.1", "0.1", "1.10", "12.50",
     "'ü\t\"\\\\\n\r\x02'", "''", "'ab'", "'\\\\x00ff'",
     "'2024-03-01'", "'2024-03-01 12:00:00.5+05:30'", "'2024-03-01 12:00:00.000005'", "'10:00'",
     "'00000000-0000-0000-0000-000000000001'", "'{\"x\": 0.12345678901234567890}'", "'so so'",
     "'[2024-03-01 12:00+00,)'", "'%s'", "'x'", "'null'"),
    ("false", "0", "-2147483648", "-9223372036854775808", "1e30", "1e300", "1e-7", "-0.01", "'null'", "'\t'", "'null '",
     "decode(repeat('ab', 100), 'hex')", "'0001-01-01'", "'0001-01-02'", "'9999-12-31 23:59:59.999999'", "'24:00'",
     "'00000000-0000-0000-0000-00000000000a'", "'null'", "'null'", "'empty'", "''", "''", "'\\\\.'"),
    ("NULL",) * 23,
    ("NULL", "NULL", "NULL", "NULL", "'NaN'", "'-Infinity'", "'NaN'", *("NULL",) * 16),
)  # fmt: skip


def test_rows_that_the_server_writes_are_those_of_the_driver(postgres, database):
    """In a session whose zone has offsets that no parser takes."""
    names = [name.replace('"', '""') for name in TYPES]
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, TYPES.values(), strict=True))
    rows = ", ".join(
        f"({n}, {', '.join(f'E{v}' if v.startswith(chr(39)) else v for v in row)})" for n, row in enumerate(ROWS)
    )
    ((name,),) = postgres.execute(database, "SELECT current_database()")
    for statement in (
        "CREATE TYPE mood AS ENUM ('so so', 'null')",
        f"CREATE TABLE events (n int, {columns}, xid xid8 NOT NULL DEFAULT pg_current_xact_id())",
        f"SET TimeZone = 'UTC'; INSERT INTO events VALUES {rows}",
        f"ALTER DATABASE \"{name}\" SET timezone = 'Europe/Amsterdam'",
    ):
        postgres.execute(database, statement)
    found, _ = poll_of(database, "xid").poll(None)
    with patch("rs_assets.connectors.database.polled.can_write", return_value=False):
        wanted, _ = poll_of(database, "xid").poll(None)
    assert isinstance(found, Lines)
    assert not isinstance(wanted, Lines)
    kinds = {"n": "int", **TYPES, "xid": "text"}
    made, others = ([meant(json.loads(line), kinds) for line in lines] for lines in (found, wanted))
    assert made == others
    assert made[0]["fixed"] == "ab   "
    assert made[1]["any_number"] == Decimal("0.0000001")


def meant(row, kinds):
    """The values of a row by the types of their columns."""
    assert [*row] == [*kinds]
    read = {"timestamptz": datetime.fromisoformat, "timestamp": datetime.fromisoformat, "numeric": Decimal}
    made = {name: read.get(kinds[name], lambda x: x)(v) if v is not None else None for name, v in row.items()}
    return {name: str(value) if value != value else value for name, value in made.items()}


def test_a_poll_of_many_rows_is_in_the_order_of_its_column(postgres, database):
    postgres.execute(database, "CREATE TABLE events (n int, at timestamptz)")
    postgres.execute(
        database, "INSERT INTO events SELECT n, now() - n * interval '1 second' FROM generate_series(1, 50001) n"
    )
    ((found,), _) = read(poll_of(database, "at", lag=timedelta(microseconds=1), rows=100_000))
    assert found == [*range(50_001, 0, -1)]


def test_one_poll_comes_while_a_batch_is_computed(tmp_path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.execute("CREATE TABLE events (n INTEGER PRIMARY KEY)")
        shop.executemany("INSERT INTO events VALUES (?)", [(n,) for n in range(9)])
    spool = Spool(tmp_path / "spool")

    def begun():
        return PollPlan(poll_of(f"sqlite:///{path}", "n", rows=2), spool)

    def rows_of(plan, start, end):
        since = start[POLL_SPLIT].next if start else 0
        lines = [line for b in plan.read(POLL_SPLIT, since, end[POLL_SPLIT].next) for line in b["value"].to_pylist()]
        return [json.loads(line)["n"] for line in lines]

    killed = begun()
    first = killed.next({}, 2)
    killed._ahead.wait()
    assert spool.end() == first[POLL_SPLIT].next + 2
    # As if the process had ended before the batch was committed, and with a poll that nobody has planned.
    plan, at, found = begun(), {}, []
    assert plan.next(at, 2) == first
    while (end := plan.next(at, 2)) != at:
        found += rows_of(plan, at, end)
        plan.committed(end)
        at = end
    assert found == [*range(9)]


def test_a_list_is_the_text_of_one_in_json(postgres, database):
    postgres.execute(
        database, "CREATE TABLE events (n int, a int[], b text[], c numeric[], d float8[], e date[], f bytea[],"
        " xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )  # fmt: skip
    postgres.execute(
        database, "INSERT INTO events VALUES (1, '{{1,NULL},{3,4}}', '{ü,\"a \\\"b\\\"\",NULL}', '{1.10,NaN}',"
        " '{0.1,Infinity}', '{2024-03-01,infinity}', '{}')"
    )  # fmt: skip
    (line,), _ = poll_of(database, "xid").poll(None)
    assert {name: value for name, value in json.loads(line).items() if name in "abcdef"} == {
        "a": "[[1,null],[3,4]]", "b": '["ü","a \\"b\\"",null]', "c": '[1.10,"NaN"]', "d": '[0.1,"Infinity"]',
        "e": '["2024-03-01","infinity"]', "f": "[]",
    }  # fmt: skip


def test_numbers_of_lists_and_of_json_in_them_are_as_the_server_has_them(postgres, database):
    """A number of jsonb has no minus zero and no exponent, and a text there no \\u0000."""
    postgres.execute(
        database, "CREATE TABLE events (n int, a float8[], b json[], xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )
    postgres.execute(
        database, 'INSERT INTO events VALUES (1, \'{-0,1e300}\', ARRAY[\'{"x": 1e2, "x": "\\u0000"}\'::json])'
    )
    (line,), _ = poll_of(database, "xid").poll(None)
    row = json.loads(line)
    assert (row["a"], row["b"]) == ("[-0,1e+300]", '[{"x": 1e2, "x": "\\u0000"}]')


def test_decimals_that_spark_does_not_have_are_texts(postgres, database):
    kinds = {"a": "numeric(38, 2)", "b": "numeric(50, 5)", "c": "numeric(3, -2)", "d": "numeric(3, 5)", "e": "numeric"}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    postgres.execute(database, f"CREATE TABLE events ({columns}, xid xid8 NOT NULL DEFAULT pg_current_xact_id())")
    postgres.execute(database, "INSERT INTO events VALUES (1.5, 1, 12300, 0.00123, 1.10)")
    poll = poll_of(database, "xid")
    with poll.place.reading(SourceReadError) as connection:
        fields = [_field(column.type, sqlite=False) for column in poll.reflected(connection).columns]
    assert fields == ["decimal(38,2)", *["string"] * 5]
    ((line,), _) = poll.poll(None)
    assert [*json.loads(line).values()][:5] == ["1.50", "1.00000", "12300", "0.00123", "1.10"]


def test_texts_do_not_depend_on_settings_of_the_database(postgres):
    """It has no encoding, and other forms of dates, intervals and bytes."""
    postgres.execute(
        postgres.url(), "CREATE DATABASE odd ENCODING SQL_ASCII TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    for setting in ("datestyle = 'SQL, DMY'", "intervalstyle = 'postgres_verbose'", "bytea_output = 'escape'"):
        postgres.execute(postgres.url(), f"ALTER DATABASE odd SET {setting}")
    url = postgres.url("odd")
    postgres.execute(
        url, "CREATE TABLE events (a text, b interval, c daterange, d bytea[],"
        " xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )  # fmt: skip
    postgres.execute(
        url,
        "INSERT INTO events VALUES (E'\\xc3\\xa9', '1 mon 2 days', '[2024-02-01,2024-03-01)', ARRAY['\\xff'::bytea])",
    )
    (line,), _ = poll_of(url, "xid").poll(None)
    assert [*json.loads(line).values()][:4] == ["é", "1 mon 2 days", "[2024-02-01,2024-03-01)", '["\\\\xff"]']


def test_minus_zero_keeps_its_sign(postgres, database):
    """Spark reads a number without a point as a whole one."""
    postgres.execute(
        database, "CREATE TABLE events (n int, a real, b float8, xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )
    postgres.execute(database, "INSERT INTO events VALUES (1, '-0', '-0'), (2, 0, 1e-10), (3, NULL, NULL)")
    lines, _ = poll_of(database, "xid").poll(None)
    found = [line.decode().split(',"xid"')[0] for line in lines]
    assert found == ['{"n":1,"a":-0.0,"b":-0.0', '{"n":2,"a":0,"b":1e-10', '{"n":3,"a":null,"b":null']


def test_a_table_of_many_columns_is_read(postgres, database):
    """A function of the server takes 100 arguments."""
    columns = ", ".join(f"c{n} int DEFAULT {n}" for n in range(700))
    postgres.execute(
        database, f"CREATE TABLE events (n int, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), {columns})"
    )
    postgres.execute(database, "INSERT INTO events VALUES (1)")
    (line,), _ = poll_of(database, "xid").poll(None)
    row = json.loads(line)
    assert [row[f"c{n}"] for n in range(700)] == [*range(700)]


@pytest.mark.long
def test_values_have_the_types_of_their_columns_and_times_that_spark_lacks_are_bad_records(postgres, database, options):
    postgres.execute(
        database, "CREATE TABLE events (n int, x float8, cents numeric(9, 2), raw bytea, day date, at timestamptz,"
        " local timestamp, ok boolean, xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )  # fmt: skip
    postgres.execute(
        database, "INSERT INTO events VALUES (1, '-Infinity', 1.10, '\\x00ff', '2024-03-01',"
        " '2024-03-01 12:00:00.5+01', '2024-03-01 12:00:00.000005', true),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, 0, 0, '', 'infinity', now(), now(), true),"
        " (4, 0, 0, '', '0044-03-15 BC', now(), now(), true), (5, 0, 0, '', now(), '-infinity', now(), true),"
        " (6, 0, 0, '', now(), now(), '0044-03-15 BC', true)"
    )  # fmt: skip
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("shop", "events").from_database(
        database, "events", column="xid", bad_records="dead_letter"
    )
    report = stream.to_memory(out).build().run(options)
    first, second = sorted(out.rows(), key=lambda row: row["n"])
    assert report.rows_dead == 4
    assert {name: value for name, value in first.items() if name not in ("xid", "at")} == {
        "n": 1, "x": float("-inf"), "cents": Decimal("1.10"), "raw": b"\0\xff", "day": date(2024, 3, 1), "ok": True,
        "local": datetime(2024, 3, 1, 12, 0, 0, 5),  # noqa: DTZ001  without a zone
    }  # fmt: skip
    assert first["at"].astimezone(UTC) == datetime(2024, 3, 1, 11, 0, 0, 500_000, tzinfo=UTC)
    assert [second[name] for name in ("x", "cents", "raw", "day", "at", "local", "ok")] == [None] * 7


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
