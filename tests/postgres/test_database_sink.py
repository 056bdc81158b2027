"""The sink of a database: a batch and its mark are one transaction, on real servers and on SQLite."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlalchemy import NullPool, create_engine, text

from rs_assets.connectors.database.ledger import Ledger
from rs_assets.connectors.database.place import Place, hidden, place_of
from rs_assets.connectors.database.writer import DatabaseWriter
from rs_assets.connectors.sink import BatchMark, Claim
from rs_assets.errors import ConfigurationError, LeaseLostError, SinkError

MARK = BatchMark("p1", 1, "out", 0, token=5)
HITS = StructType([StructField("id", LongType()), StructField("page", StringType())])
CHANGES = StructType([*HITS.fields, StructField("retracted", BooleanType())])


@pytest.fixture(params=["postgres", "sqlite", pytest.param("mariadb", marks=pytest.mark.long)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/out.db"
    return request.getfixturevalue({"postgres": "database", "mariadb": "shop"}[request.param])


def writer_of(url, table="hits", **options):
    return DatabaseWriter("out", Place(hidden(url), "out"), table, place_of(url, table, step="out"), **options)


def upserting(url, **options):
    return writer_of(url, mode="upsert", keys=("id",), **options)


def asked(url, sql="SELECT id, page FROM hits ORDER BY id"):
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        found = connection.execute(text(sql))
        return [tuple(row) for row in found] if found.returns_rows else []


def batch(*rows, schema=HITS):
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=to_arrow_schema(schema, timezone="UTC"))


def write(writer, number, *rows, schema=HITS, **mark):
    return writer.staged(batch(*rows, schema=schema), schema, replace(MARK, batch_id=number, **mark)).commit()


def test_should_commit_a_batch_once(url):
    writer = writer_of(url)
    assert (writer.committed(MARK), writer.last_committed(MARK)) == (False, -1)
    part = writer.staged(batch((1, "/a"), (2, None)), HITS, MARK)
    assert asked(url) == []
    assert part.commit() == 2
    assert part.commit() == 0
    assert writer_of(url).staged(batch((1, "/a"), (2, None)), HITS, MARK).commit() == 0
    assert asked(url) == [(1, "/a"), (2, None)]
    assert (writer.committed(MARK), writer_of(url).last_committed(MARK)) == (True, 0)
    # A later batch without rows is marked, too.
    assert write(writer, 1) == 0
    assert writer.last_committed(MARK) == 1


def test_an_upsert_should_equal_a_model_under_replays(url):
    writer, rows, seed = upserting(url, deletes="retracted"), {}, random.Random(7)
    for number in range(12):
        changes = [(seed.randrange(8), f"/{seed.random()}", seed.random() < 0.3) for _ in range(seed.randrange(10))]
        for _ in range(seed.choice([1, 1, 2])):
            write(writer, number, *changes, schema=CHANGES)
        # Of a row and its retraction in one batch the row is the newer one.
        for key, page, gone in sorted(changes, key=lambda change: not change[2]):
            rows.pop(key, None)
            if not gone:
                rows[key] = page
        assert asked(url) == sorted(rows.items())


def test_an_upsert_should_leave_the_other_columns_of_a_table(url):
    asked(url, "CREATE TABLE hits (id BIGINT PRIMARY KEY, page TEXT, seen INTEGER DEFAULT 9)")
    asked(url, "INSERT INTO hits VALUES (1, '/old', 3)")
    write(upserting(url), 0, (1, "/new"), (2, "/b"))
    assert asked(url, "SELECT * FROM hits ORDER BY id") == [(1, "/new", 3), (2, "/b", 9)]


def test_a_row_of_keys_alone_should_be_there_once(url):
    schema = StructType([StructField("id", LongType())])
    writer = upserting(url)
    for number in range(2):
        writer.staged(batch((1,), (1,), schema=schema), schema, replace(MARK, batch_id=number)).commit()
    assert asked(url, "SELECT id FROM hits") == [(1,)]


def test_should_leave_nothing_of_a_batch_that_the_database_refuses(url):
    asked(url, "CREATE TABLE hits (id BIGINT, page TEXT CHECK (page <> '/no'))")
    writer = writer_of(url)
    write(writer, 0, (1, "/a"))
    with pytest.raises(SinkError, match="(?i)constraint") as refused:
        write(writer, 1, (2, "/b"), (3, "/no"))
    assert "a constraint or a unique index" in refused.value.remedy
    assert (asked(url), writer.last_committed(MARK)) == ([(1, "/a")], 0)
    assert write(writer, 1, (2, "/b")) == 1


# Killed inside the transaction: the rows are written, and their mark is not.
KILLED = """
import os, signal, sys
from rs_assets.connectors.database.ledger import Ledger
from tests.postgres.test_database_sink import write, writer_of

Ledger.note = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write(writer_of(sys.argv[1]), 1, (8, "/x"), (9, "/y"))
"""


def test_should_leave_nothing_of_a_batch_in_which_the_driver_was_killed(url):
    writer = writer_of(url)
    write(writer, 0, (1, "/a"))
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == -signal.SIGKILL
    assert (writer.last_committed(MARK), asked(url)) == (0, [(1, "/a")])
    assert write(writer, 1, (8, "/x"), (9, "/y")) == 2
    assert asked(url) == [(1, "/a"), (8, "/x"), (9, "/y")]


@pytest.mark.parametrize("upsert", [False, True])
def test_should_be_exact_over_a_server_that_is_killed_in_a_batch(postgres, database, monkeypatch, upsert):
    writer = upserting(database) if upsert else writer_of(database)
    write(writer, 0, (1, "/a"))
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note", lambda *_: postgres.kill())
        with pytest.raises(SinkError) as refused:
            write(writer, 1, (2, "/b"))
    assert "nothing of the batch was written" in refused.value.remedy
    with pytest.raises(SinkError, match="refused"):
        writer.committed(MARK)
    postgres.start()
    assert (writer.last_committed(MARK), asked(database)) == (0, [(1, "/a")])
    assert write(writer, 1, (2, "/b")) == 1
    assert asked(database) == [(1, "/a"), (2, "/b")]


def test_should_refuse_a_driver_that_was_overtaken(url):
    writer, newer = writer_of(url), replace(MARK, token=6)
    late = writer.staged(batch((1, "/a")), HITS, MARK)
    writer.raise_fence(newer)
    with pytest.raises(LeaseLostError, match="another driver has taken over"):
        late.commit()
    with pytest.raises(LeaseLostError):
        writer.committed(MARK)
    assert (writer.last_committed(newer), writer.last_writer(newer).token) == (-1, 6)
    assert write(writer, 0, (1, "/a"), token=6) == 1


def test_should_refuse_a_start_that_another_home_has_overtaken(url):
    ours = Claim(pipeline="shop.copy", number=7, home="a", known=frozenset({7}))
    theirs = replace(ours, number=8, home="b", known=frozenset({7, 8}))
    writer = writer_of(url)
    write(writer, 0, (1, "/a"), claim=ours)
    write(writer, 0, (2, "/b"), claim=theirs, pipeline_id="p2")
    with pytest.raises(LeaseLostError, match="another home"):
        writer.committed(replace(MARK, claim=ours))
    assert writer.last_writer(replace(MARK, claim=ours)).home == "b"


def test_two_drivers_in_one_moment_should_write_a_batch_once(url):
    """Each commits batch after batch as if it were alone; a batch is there once, and the older token ends."""
    ends, start = [], threading.Barrier(2)

    def drive(token):
        writer = writer_of(url)
        start.wait()
        try:
            for number in range(15):
                write(writer, number, (number, "/a"), token=token)
        except LeaseLostError:
            ends.append(token)

    drivers = [threading.Thread(target=drive, args=[token]) for token in (5, 6)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert 6 not in ends
    assert asked(url) == [(number, "/a") for number in range(15)]


def test_going_back_should_be_possible_to_what_is_there(url):
    writer = writer_of(url)
    for number in range(2):
        write(writer, number, (number, "/a"))
    begun = replace(MARK, generation=2, batch_id=1)
    with pytest.raises(SinkError, match="cannot be removed") as refused:
        writer.check_rewind(MARK, begun, had=1)
    assert "go to batch 1" in refused.value.remedy
    kept = replace(MARK, batch_id=1)
    writer.check_rewind(kept, begun, had=1)
    assert writer.rewind(kept, begun, had=1) == writer.rewind(kept, begun, had=1) == "had nothing to undo"
    assert writer.last_committed(begun) == 1
    # The first generation has the same rows, so that it can be gone back to.
    writer.check_rewind(kept, replace(begun, generation=3), had=1)
    with pytest.raises(SinkError, match="empty the table"):
        writer.check_begin(replace(MARK, generation=3))
    asked(url, "DELETE FROM hits")
    assert writer.check_begin(replace(MARK, generation=3)) == ""


def test_a_new_generation_of_an_upsert_should_be_warned_of(url):
    writer = upserting(url)
    write(writer, 0, (1, "/a"))
    assert "until rows of their keys replace them" in writer.check_begin(replace(MARK, generation=2))


def test_a_ledger_that_is_an_older_copy_should_be_missed(url):
    writer = writer_of(url)
    write(writer, 0, (1, "/a"))
    asked(url, "DELETE FROM rs_marks")
    with pytest.raises(SinkError, match="holds no batch of this pipeline and had batch 0"):
        writer.last_committed(MARK)


def test_going_back_to_a_batch_that_an_older_copy_lacks_should_name_the_one_that_it_has(url):
    write(writer_of(url), 0, (1, "/a"))
    begun = replace(MARK, generation=2, batch_id=1)
    with pytest.raises(SinkError, match="ends at batch 0 and had batch 1: restore the database") as refused:
        writer_of(url).check_rewind(replace(MARK, batch_id=1), begun, had=1)
    assert "go back to batch 0" in refused.value.remedy
    writer_of(url).check_rewind(MARK, replace(begun, batch_id=0), had=1)


def test_a_schema_should_have_marks_of_its_own(postgres, database):
    postgres.execute(database, "CREATE SCHEMA shop")
    write(writer_of(database, "shop.hits"), 0, (1, "/a"))
    assert asked(database, "SELECT page FROM shop.hits") == [("/a",)]
    assert asked(database, "SELECT batch, token FROM shop.rs_marks") == [(0, 5)]


ALL = StructType(
    [
        StructField("id", LongType()),
        StructField('odd "name": 100%', StringType()),
        StructField("small", IntegerType()),
        StructField("real", DoubleType()),
        StructField("cents", DecimalType(20, 2)),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("day", DateType()),
        StructField("raw", BinaryType()),
        StructField("ok", BooleanType()),
    ]
)
AT = datetime(1969, 3, 1, 12, 0, 0, 5, UTC)
CENTS = Decimal("123456789012345678.25")
FULL = (1, 'ü,"x"\n\\N', -3, 0.1, CENTS, AT, AT.replace(tzinfo=None), date(1, 1, 2), b"\0\xff", True)
VALUES = [FULL, (2, "", *[None] * 8), (3, None, 0, float("inf"), Decimal("-0.01"), None, None, None, b"", False)]


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ("id",)}], ids=["append", "upsert"])
def test_values_should_come_back_from_postgres_as_they_were(postgres, database, mode):
    writer = writer_of(database, **mode)
    writer.staged(batch(*VALUES, schema=ALL), ALL, MARK).commit()
    assert postgres.execute(database, "SELECT * FROM hits ORDER BY id") == VALUES


@pytest.mark.parametrize("kind", [TimestampType(), TimestampNTZType()], ids=str)
@pytest.mark.parametrize("column", ["timestamptz", "timestamp"])
def test_times_should_be_utc_wherever_the_server_is(postgres, database, kind, column):
    ((name,),) = postgres.execute(database, "SELECT current_database()")
    postgres.execute(database, f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Tokyo'")
    postgres.execute(database, f"CREATE TABLE hits (at {column})")
    schema = StructType([StructField("at", kind)])
    zone = UTC if isinstance(kind, TimestampType) else None
    writer_of(database).staged(batch((datetime(2024, 3, 1, 12, tzinfo=zone),), schema=schema), schema, MARK).commit()
    assert postgres.execute(database, "SELECT extract(epoch FROM at)::int FROM hits") == [(1709294400,)]


def test_values_should_be_kept_by_sqlite_as_text_where_it_has_no_type(tmp_path):
    url = f"sqlite:///{tmp_path}/out.db"
    writer_of(url).staged(batch(*VALUES, schema=ALL), ALL, MARK).commit()
    exact = ("123456789012345678.25", "1969-03-01 12:00:00.000005", "1969-03-01 12:00:00.000005", "0001-01-02")
    assert asked(url, "SELECT * FROM hits")[0] == (*FULL[:4], *exact, *FULL[8:])


def test_a_table_that_does_not_fit_should_be_refused_by_its_columns(url):
    asked(url, "CREATE TABLE hits (id BIGINT)")
    with pytest.raises(SinkError, match="no column 'page'") as refused:
        write(writer_of(url), 0, (1, "/a"))
    statement = refused.value.remedy.partition(";")[0]
    asked(url, statement)
    assert write(writer_of(url), 0, (1, "/a")) == 1
    with pytest.raises(SinkError, match="no unique index of id") as refused:
        write(upserting(url), 1, (1, "/b"))
    asked(url, refused.value.remedy)
    assert write(upserting(url), 1, (1, "/b")) == 1
    assert asked(url) == [(1, "/b")]


def test_a_column_of_another_type_should_be_refused(database):
    asked(database, "CREATE TABLE hits (id TEXT, page TEXT)")
    with pytest.raises(SinkError, match="the column 'id' of the table 'hits' is TEXT, which does not take bigint"):
        write(writer_of(database), 0, (1, "/a"))
    cast = StructType([StructField("id", StringType()), StructField("page", StringType())])
    assert write(writer_of(database), 0, ("1", "/a"), schema=cast) == 1


@pytest.mark.parametrize(
    ("column", "kind", "fits"),
    [
        ("numeric(10,2)", DecimalType(20, 10), False),
        ("real", DoubleType(), False),
        ("numeric", DecimalType(20, 10), True),
        ("numeric(30,12)", DecimalType(20, 10), True),
        ("real", FloatType(), True),
        ("numeric(10,2)", LongType(), True),
        ("numeric(9,-2)", LongType(), False),
        ("cents", DecimalType(20, 10), False),
        ("cents", DecimalType(9, 2), True),
        ("money", DecimalType(9, 4), False),
        ("time", TimestampType(), False),
        ("bit(8)", LongType(), False),
    ],
)
def test_a_column_that_would_round_values_should_be_refused(postgres, database, column, kind, fits):
    postgres.execute(database, "CREATE DOMAIN cents AS numeric(10,2)")
    postgres.execute(database, f"CREATE TABLE hits (n {column})")
    schema = StructType([StructField("n", kind)])
    rows = batch((None,), schema=schema)
    if fits:
        assert writer_of(database).staged(rows, schema, MARK).commit() == 1
        return
    with pytest.raises(SinkError, match="does not take") as refused:
        writer_of(database).staged(rows, schema, MARK)
    assert "cast the field" in refused.value.remedy


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ("id",)}], ids=["append", "upsert"])
@pytest.mark.parametrize(
    ("column", "micros"),
    [("timestamptz(0)", 500_000), ("timestamp(3)", 1), ("second", 500_000)],
    ids=["seconds", "milliseconds", "domain"],
)
def test_a_time_that_a_column_would_round_should_end_the_batch(postgres, database, mode, column, micros):
    """The server rounds digits of a second without a warning."""
    schema = StructType([StructField("id", LongType()), StructField("at", TimestampType())])
    postgres.execute(database, "CREATE DOMAIN second AS timestamptz(0)")
    postgres.execute(database, f"CREATE TABLE hits (id bigint PRIMARY KEY, at {column})")
    at = datetime(2024, 3, 1, 12, tzinfo=UTC)
    with pytest.raises(SinkError, match="more digits of a second than the column at") as refused:
        write(writer_of(database, **mode), 0, (1, at.replace(microsecond=micros)), schema=schema)
    assert "change its type" in refused.value.remedy
    assert write(writer_of(database, **mode), 0, (1, at), (2, None), schema=schema) == 2
    assert asked(database, "SELECT count(at) FROM hits") == [(1,)]


def test_blanks_that_a_column_would_cut_should_end_the_batch(postgres, database):
    """By the standard of SQL a text that is too long loses blanks at its end."""
    postgres.execute(database, "CREATE TABLE hits (id bigint, page varchar(3))")
    with pytest.raises(SinkError, match=r"a text is longer than the column page \(varchar\(3\)\)"):
        write(writer_of(database), 0, (1, "abc "))
    assert write(writer_of(database), 0, (1, "ab "), (2, None)) == 2
    assert asked(database) == [(1, "ab "), (2, None)]


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ("id",)}], ids=["append", "upsert"])
@pytest.mark.parametrize(("column", "most"), [("name", 63), ('"char"', 1)], ids=["name", "char"])
def test_a_text_that_a_type_of_the_catalogue_would_cut_should_end_the_batch(postgres, database, mode, column, most):
    postgres.execute(database, f"CREATE TABLE hits (id bigint PRIMARY KEY, page {column})")
    for long in ("x" * (most + 1), "x" * (most - 1) + "é"):
        with pytest.raises(SinkError, match="a text is longer than the column page") as refused:
            write(writer_of(database, **mode), 0, (1, long))
        assert "change its type" in refused.value.remedy
    assert write(writer_of(database, **mode), 0, (1, "x" * most), (2, None)) == 2
    assert asked(database) == [(1, "x" * most), (2, None)]


TEXTS = StructType([StructField("id", StringType()), StructField("page", StringType())])
RETRACTED = StructType([*TEXTS.fields, StructField("retracted", BooleanType())])


@pytest.mark.parametrize(
    ("column", "one", "other"), [("citext", "a", "A"), ("char(9)", "a", "a ")], ids=["case", "blanks"]
)
def test_keys_that_a_column_holds_for_equal_should_be_refused(postgres, database, column, one, other):
    """The row of one key would get the values of the other."""
    postgres.execute(database, "CREATE EXTENSION citext")
    postgres.execute(database, f"CREATE TABLE hits (id {column} PRIMARY KEY, page text)")
    write(upserting(database), 0, (one, "/a"), schema=TEXTS)
    for rows in ([(other, "/b")], [("b" + one, "/b"), ("b" + other, "/c")]):
        with pytest.raises(SinkError, match="are equal in the column 'id'") as refused:
            write(upserting(database), 1, *rows, schema=TEXTS)
    asked(database, refused.value.remedy.partition(";")[0])
    assert write(upserting(database), 1, (other, "/b"), schema=TEXTS) == 1
    assert sorted(asked(database)) == sorted([(one, "/a"), (other, "/b")])


def test_keys_that_sqlite_holds_for_equal_should_be_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/out.db"
    asked(url, "CREATE TABLE hits (id TEXT COLLATE NOCASE PRIMARY KEY, page TEXT)")
    writer = upserting(url, deletes="retracted")
    write(writer, 0, ("a", "/a", False), schema=RETRACTED)
    for rows in ([("A", "/b", False)], [("b", "/b", False), ("B", "/c", False)]):
        with pytest.raises(SinkError, match="are equal in the column 'id'"):
            write(writer, 1, *rows, schema=RETRACTED)
    assert asked(url) == [("a", "/a")]
    assert write(writer, 1, ("a", "/b", False), ("b", "/c", False), schema=RETRACTED) == 2


def delete_and_respell(url):
    """Deletions in a table whose column holds 'a' and 'A' for equal."""
    writer = upserting(url, deletes="retracted")
    write(writer, 0, ("a", "/a", False), ("b", "/b", False), schema=RETRACTED)
    write(writer, 1, ("A", "/a", True), schema=RETRACTED)
    assert asked(url) == [("a", "/a"), ("b", "/b")]
    write(writer, 2, ("a", "/a", True), ("A", "/c", False), schema=RETRACTED)
    assert asked(url) == [("A", "/c"), ("b", "/b")]
    with pytest.raises(SinkError, match="are equal in the column 'id'"):
        write(writer, 3, ("b", "/b", True), ("a", "/d", False), schema=RETRACTED)
    assert asked(url) == [("A", "/c"), ("b", "/b")]


def test_a_key_that_is_retracted_in_another_case_deletes_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/out.db"
    asked(url, "CREATE TABLE hits (id TEXT COLLATE NOCASE PRIMARY KEY, page TEXT)")
    delete_and_respell(url)


def test_a_key_of_citext_that_is_retracted_in_another_case_deletes_nothing(postgres, database):
    postgres.execute(database, "CREATE EXTENSION citext")
    postgres.execute(database, "CREATE TABLE hits (id citext PRIMARY KEY, page text)")
    delete_and_respell(database)


@pytest.mark.parametrize(
    ("column", "kind", "value", "fits"),
    [
        ("STRING", StringType(), "007", False),
        ("DATETIME", StringType(), "2024-03-01", True),
        ("NUMERIC(20,2)", DecimalType(20, 2), Decimal("123456789012345678.25"), False),
        ("NUMERIC(9,2)", DecimalType(9, 2), Decimal("1234567.25"), True),
        ("TEXT", DoubleType(), 0.1 + 0.2, False),
        ("REAL", LongType(), 2**53 + 1, False),
        ("", StringType(), "007", True),
    ],
)
def test_a_column_of_sqlite_that_would_change_values_should_be_refused(tmp_path, column, kind, value, fits):
    """It makes the number 7 of the text '007', and 15 digits of a number."""
    url, schema = f"sqlite:///{tmp_path}/out.db", StructType([StructField("v", kind)])
    asked(url, f"CREATE TABLE hits (v {column})")
    rows = batch((value,), schema=schema)
    if fits:
        writer_of(url).staged(rows, schema, MARK).commit()
        assert asked(url, "SELECT v FROM hits") == [(float(value) if isinstance(value, Decimal) else value,)]
        return
    with pytest.raises(SinkError, match="does not take") as refused:
        writer_of(url).staged(rows, schema, MARK)
    assert "change the column" in refused.value.remedy


def test_a_type_without_columns_should_be_refused(url):
    schema = StructType([StructField("pause", CalendarIntervalType())])
    with pytest.raises(SinkError, match="the field 'pause' is interval, for which databases have no column"):
        writer_of(url).staged(pa.table({"pause": [1]}), schema, MARK)
    assert write(writer_of(url), 0, (1, "/a")) == 1


def test_a_null_key_should_be_refused(url):
    with pytest.raises(SinkError, match="the key 'id' of a row is null") as refused:
        write(upserting(url), 0, (None, "/a"))
    assert "filter('id IS NOT NULL')" in refused.value.remedy
    assert write(upserting(url), 0, (1, "/a")) == 1


def test_no_error_should_show_the_password(postgres):
    url = postgres.url("nowhere").replace("postgres@", "postgres:gehe%3Aim@")
    with pytest.raises(SinkError) as refused:
        writer_of(url).committed(MARK)
    told = f"{refused.value} {refused.value.facts} {writer_of(url)!r}"
    assert "gehe" not in told
    assert 'database "nowhere" does not exist' in told


def test_a_url_that_cannot_be_used_should_be_refused():
    with pytest.raises(ConfigurationError, match="no valid database URL"):
        place_of("postgres", "hits", step="out")
    with pytest.raises(ConfigurationError, match="no database driver for 'oracle\\+nothing'"):
        writer_of("oracle+nothing://db/shop").committed(MARK)
