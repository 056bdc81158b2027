"""Where MariaDB is unlike Postgres as a sink: what it would change, leave out or end without a word."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pymysql.cursors import Cursor
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rs_assets.connectors.database import mysql
from rs_assets.connectors.database.ledger import Ledger
from rs_assets.errors import SinkError
from tests.postgres.test_database_sink import (
    ALL,
    MARK,
    VALUES,
    asked,
    batch,
    delete_and_respell,
    upserting,
    write,
    writer_of,
)
from tests.postgres.test_database_sink import (
    test_should_leave_nothing_of_a_batch_in_which_the_driver_was_killed as should_leave_nothing_of_a_killed_batch,
)

MODES = pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ("id",)}], ids=["append", "upsert"])
# Infinity has no place there.
FINITE = [VALUES[0], VALUES[1], (3, None, 0, -0.5, Decimal("-0.01"), None, None, None, b"", False)]
ODD = ("NULL", "\\N", "\\", "a\tb\r\nc", "'\"`", "\0\x1a", "Δ😀", " ", "", "%s :x", None)


@pytest.mark.long
@MODES
def test_values_should_come_back_as_they_were(mariadb, shop, mode):
    writer_of(shop, **mode).staged(batch(*FINITE, schema=ALL), ALL, MARK).commit()
    found = mariadb.execute(shop, "SELECT * FROM hits ORDER BY id")
    # Times are UTC, and a boolean is a number.
    assert found == [
        (*r[:5], r[5] and r[5].replace(tzinfo=None), *r[6:9], r[9] if r[9] is None else int(r[9])) for r in FINITE
    ]


@pytest.mark.long
@MODES
@pytest.mark.parametrize("loads", [True, False], ids=["load", "statements"])
def test_texts_should_come_back_as_they_were(mariadb, shop, mode, loads, monkeypatch):
    if not loads:
        monkeypatch.setattr(mysql, "loads", lambda _: False)
    rows = [*enumerate(ODD), (len(ODD), "x" * 100_000)]
    write(writer_of(shop, **mode), 0, *rows)
    assert asked(shop) == rows


@pytest.mark.long
@pytest.mark.parametrize("loads", [True, False], ids=["load", "statements"])
def test_times_should_be_utc_in_a_column_that_knows_zones(mariadb, shop, loads, monkeypatch):
    if not loads:
        monkeypatch.setattr(mysql, "loads", lambda _: False)
    schema = StructType([StructField("at", TimestampType())])
    mariadb.execute(shop, "CREATE TABLE hits (at TIMESTAMP(6) NULL)")
    mariadb.execute(shop, "SET GLOBAL time_zone = '+09:00'")
    try:
        writer_of(shop).staged(batch((datetime(2024, 3, 1, 12, tzinfo=UTC),), schema=schema), schema, MARK).commit()
    finally:
        mariadb.execute(shop, "SET GLOBAL time_zone = 'SYSTEM'")
    assert mariadb.execute(shop, "SELECT unix_timestamp(at) FROM hits") == [(Decimal("1709294400.000000"),)]


@pytest.mark.parametrize(("column", "micros"), [("DATETIME", 700_000), ("TIMESTAMP(3) NULL", 1)])
def test_a_time_that_the_column_would_cut_should_end_the_batch(mariadb, shop, column, micros):
    """The server drops digits of a second without a warning."""
    schema = StructType([StructField("at", TimestampType())])
    mariadb.execute(shop, f"CREATE TABLE hits (at {column})")
    at = datetime(2024, 3, 1, 12, tzinfo=UTC)
    with pytest.raises(SinkError, match="more digits of a second") as refused:
        writer_of(shop).staged(batch((at.replace(microsecond=micros),), schema=schema), schema, MARK).commit()
    assert "change its type" in refused.value.remedy
    writer_of(shop).staged(batch((at,), (None,), schema=schema), schema, MARK).commit()
    assert mariadb.execute(shop, "SELECT at FROM hits ORDER BY at") == [(None,), (at.replace(tzinfo=None),)]


@pytest.mark.long
@MODES
@pytest.mark.parametrize(
    ("column", "value"),
    [("VARCHAR(3)", "abcd"), ("VARCHAR(9) CHARACTER SET latin1", "Δ"), ("ENUM('a')", "b"), ("TEXT NOT NULL", None)],
)
def test_a_value_that_does_not_fit_should_end_the_batch_and_not_be_changed(mariadb, shop, mode, column, value):
    mariadb.execute(shop, "SET GLOBAL sql_mode = ''")
    try:
        mariadb.execute(shop, f"CREATE TABLE hits (id BIGINT PRIMARY KEY, page {column})")
        with pytest.raises(SinkError) as refused:
            write(writer_of(shop, **mode), 0, (1, "a"), (2, value))
    finally:
        mariadb.execute(shop, "SET GLOBAL sql_mode = DEFAULT")
    assert "filter" in refused.value.remedy
    assert asked(shop) == []
    assert write(writer_of(shop, **mode), 0, (1, "a")) == 1


def test_a_null_should_not_become_the_time_of_now(mariadb, shop):
    schema = StructType([StructField("id", LongType()), StructField("at", TimestampType())])
    mariadb.execute(shop, "CREATE TABLE hits (id BIGINT, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)")
    with pytest.raises(SinkError):
        write(writer_of(shop), 0, (1, None), schema=schema)
    assert asked(shop, "SELECT * FROM hits") == []


@pytest.mark.long
def test_a_zero_should_not_become_a_number_of_the_server(mariadb, shop):
    mariadb.execute(shop, "CREATE TABLE hits (id BIGINT AUTO_INCREMENT PRIMARY KEY, page TEXT)")
    write(upserting(shop), 0, (0, "/a"))
    write(upserting(shop), 1, (0, "/b"))
    assert asked(shop) == [(0, "/b")]


@pytest.mark.parametrize("loads", [True, False], ids=["load", "statements"])
def test_an_upsert_should_change_no_row_of_another_key(mariadb, shop, loads, monkeypatch):
    """By ON DUPLICATE KEY UPDATE the row of id 1 would get the values of id 2, without a word."""
    if not loads:
        monkeypatch.setattr(mysql, "loads", lambda _: False)
    mariadb.execute(shop, "CREATE TABLE hits (id BIGINT PRIMARY KEY, page VARCHAR(9) UNIQUE, n BIGINT DEFAULT 0)")
    write(upserting(shop), 0, (1, "/a"))
    with pytest.raises(SinkError) as refused:
        write(upserting(shop), 1, (2, "/a"))
    assert "a constraint or a unique index" in refused.value.remedy
    assert asked(shop) == [(1, "/a")]


@pytest.mark.long
def test_keys_that_differ_in_blanks_or_case_should_be_several_rows(shop):
    schema = StructType([StructField("id", StringType()), StructField("page", StringType())])
    rows = [("A", "1"), ("a", "2"), ("a ", "3"), ("ä", "4")]
    for number in range(2):
        write(upserting(shop), number, *rows, schema=schema)
    assert sorted(asked(shop)) == sorted(rows)


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "a", "A"),
        ("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", "a", "ä"),
        ("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "a", "a "),
        ("CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "a", "a "),
    ],
    ids=["case", "accent", "blank", "char"],
)
def test_keys_that_a_column_holds_for_equal_should_be_refused(mariadb, shop, column, one, other):
    """The row of one key would get the values of the other."""
    schema = StructType([StructField("id", StringType()), StructField("page", StringType())])
    mariadb.execute(shop, f"CREATE TABLE hits (id {column} PRIMARY KEY, page TEXT)")
    write(upserting(shop), 0, (one, "/a"), schema=schema)
    for rows in ([(other, "/b")], [("b" + one, "/b"), ("b" + other, "/c")]):
        with pytest.raises(SinkError, match="are equal in the column 'id'") as refused:
            write(upserting(shop), 1, *rows, schema=schema)
    assert write(upserting(shop), 1, (one, "/b"), ("b" + one, "/b"), schema=schema) == 2
    mariadb.execute(shop, refused.value.remedy.partition(";")[0])
    assert write(upserting(shop), 2, (other, "/c"), schema=schema) == 1
    assert sorted(asked(shop)) == sorted([(one, "/b"), (other, "/c"), ("b" + one, "/b")])


@pytest.mark.parametrize("loads", [True, False], ids=["load", "statements"])
def test_a_key_that_is_retracted_in_another_case_deletes_nothing(mariadb, shop, loads, monkeypatch):
    if not loads:
        monkeypatch.setattr(mysql, "loads", lambda _: False)
    kind = "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
    mariadb.execute(shop, f"CREATE TABLE hits (id {kind} PRIMARY KEY, page TEXT)")
    delete_and_respell(shop)


def test_the_columns_of_a_table_are_asked_for_once_a_batch(shop, monkeypatch):
    schema = StructType([StructField("id", StringType()), StructField("at", TimestampType())])
    writer, row, said = upserting(shop), ("1", datetime(2024, 3, 1, tzinfo=UTC)), []
    write(writer, 0, row, schema=schema)
    execute = Cursor.execute

    def heard(cursor, query, args=None):
        said.append(query)
        return execute(cursor, query, args)

    monkeypatch.setattr(Cursor, "execute", heard)
    write(writer, 1, row, schema=schema)
    assert [query for query in said if "COLUMNS" in query] == ["SHOW FULL COLUMNS FROM `hits`"]


@pytest.mark.parametrize("column", ["DOUBLE(9,2)", "FLOAT(9,2)", "BIT(8)"])
def test_a_column_that_would_change_numbers_should_be_refused(mariadb, shop, column):
    kind = LongType() if column.startswith("BIT") else DoubleType()
    schema = StructType([StructField("n", kind)])
    mariadb.execute(shop, f"CREATE TABLE hits (n {column})")
    with pytest.raises(SinkError, match="does not take") as refused:
        write(writer_of(shop), 0, (5,), schema=schema)
    assert "change the column" in refused.value.remedy


@pytest.mark.long
def test_reserved_words_should_be_names(mariadb, shop):
    names = ("order", "key", "group", "rank", "a b%s")
    schema = StructType([StructField(name, LongType()) for name in names])
    for number, mode in enumerate(({}, {"mode": "upsert", "keys": ("order", "key")})):
        write(writer_of(shop, f"select{len(mode)}", **mode), number, (1, 2, 3, 4, 5), schema=schema)
        assert mariadb.execute(shop, f"SELECT * FROM `select{len(mode)}`") == [(1, 2, 3, 4, 5)]
    mariadb.execute(shop, "CREATE TABLE `table` (`order` BIGINT, `key` BIGINT, `group` BIGINT, `rank` BIGINT)")
    writer = writer_of(shop, "table", mode="upsert", keys=("order", "key"))
    for _ in range(2):
        with pytest.raises(SinkError) as refused:
            write(writer, 2, (1, 2, 3, 4, 5), schema=schema)
        mariadb.execute(shop, refused.value.remedy.partition("; or write")[0])
    assert write(writer, 2, (1, 2, 3, 4, 5), schema=schema) == 1


@pytest.mark.long
def test_a_table_without_transactions_should_be_refused(mariadb, shop):
    mariadb.execute(shop, "SET GLOBAL default_storage_engine = MyISAM")
    try:
        write(writer_of(shop, "own"), 0, (1, "/a"))
        mariadb.execute(shop, "CREATE TABLE hits (id BIGINT, page TEXT)")
    finally:
        mariadb.execute(shop, "SET GLOBAL default_storage_engine = InnoDB")
    with pytest.raises(SinkError, match="engine MyISAM, which has no transactions") as refused:
        write(writer_of(shop), 1, (1, "/a"))
    mariadb.execute(shop, refused.value.remedy)
    assert write(writer_of(shop), 1, (1, "/a")) == 1


@pytest.mark.long
def test_a_number_that_the_database_cannot_hold_should_be_refused(shop):
    schema = StructType([StructField("id", LongType()), StructField("x", DoubleType()), StructField("f", FloatType())])
    with pytest.raises(SinkError, match="NaN or infinite"):
        write(writer_of(shop), 0, (1, float("nan"), None), schema=schema)
    write(writer_of(shop), 0, (1, None, 0.1), (2, 1e-300, None), schema=schema)
    assert asked(shop, "SELECT x FROM hits ORDER BY id") == [(None,), (1e-300,)]


@pytest.mark.long
def test_a_deadlock_should_be_tried_again(mariadb, shop, monkeypatch):
    """The other transaction holds row 2 and waits for row 1, which the batch has; the server ends the smaller one."""
    writer = upserting(shop)
    write(writer, 0, *((n, "/a") for n in range(50)))
    noted, tries = Ledger.note, []
    with mariadb.connected(shop) as other, other.cursor() as cursor:
        # It has changed more rows, so that the batch is the one that ends.
        cursor.execute("BEGIN")
        cursor.execute("UPDATE hits SET page = '/other' WHERE id >= 2")

        def wait_for_each_other(self, connection, mark, number):
            tries.append(1)
            if len(tries) == 1:
                waiting = threading.Thread(
                    target=lambda: (cursor.execute("DELETE FROM hits WHERE id = 1"), other.commit())
                )
                waiting.start()
                try:
                    connection.exec_driver_sql("UPDATE hits SET page = '/mine' WHERE id = 2")
                finally:
                    waiting.join()
            noted(self, connection, mark, number)

        monkeypatch.setattr(Ledger, "note", wait_for_each_other)
        assert write(writer, 1, (1, "/b")) == 1
    assert len(tries) == 2
    assert asked(shop)[:3] == [(0, "/a"), (1, "/b"), (2, "/other")]


ENDED = "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'"


@pytest.mark.parametrize("way", ["its fence", "a return"])
def test_a_start_whose_transaction_meets_a_deadlock_should_try_again(shop, monkeypatch, way):
    """Another start that has been overtaken may hold the rows of the ledger."""
    writer, noted, tries = writer_of(shop), Ledger.note, []
    write(writer, 0, (1, "/a"))

    def ended_once(self, connection, mark, number):
        tries.append(number)
        if len(tries) == 1:
            connection.exec_driver_sql(ENDED)
        noted(self, connection, mark, number)

    monkeypatch.setattr(Ledger, "note", ended_once)
    later = replace(MARK, generation=MARK.generation + 1, token=MARK.token + 1, batch_id=-1)
    if way == "its fence":
        writer.raise_fence(later)
    else:
        writer.rewind(MARK, later)
    assert len(tries) == 2
    assert writer.last_writer(later).token == later.token


@pytest.mark.long
def test_an_empty_batch_and_a_replay_should_leave_what_is_there(shop):
    schema = StructType(
        [
            *StructType([StructField("id", LongType()), StructField("page", StringType())]).fields,
            StructField("gone", BooleanType()),
        ]
    )
    writer = upserting(shop, deletes="gone")
    assert write(writer, 0, schema=schema) == 0
    write(writer, 1, (1, "/a", False), (2, "/b", False), schema=schema)
    write(writer, 2, (1, None, True), (3, "/c", False), schema=schema)
    assert write(replace(writer), 2, (2, None, True), schema=schema) == 0
    assert asked(shop) == [(2, "/b"), (3, "/c")]
    assert asked(shop, "SELECT batch FROM rs_marks") == [(2,)]


@pytest.mark.canary
def test_a_batch_in_which_the_driver_was_killed_should_leave_nothing(shop):
    should_leave_nothing_of_a_killed_batch(shop)


# Batches of a seed, one after the other, as often as it takes.
WRITES = """
import sys
from tests.mariadb.test_sink import changes_of
from tests.postgres.test_database_sink import CHANGES, MARK, replace, upserting, write, writer_of

url, seed = sys.argv[1], int(sys.argv[2])
add, put = writer_of(url, "log"), upserting(url, deletes="retracted")
for number in range(12):
    write(add, number, *changes_of(seed, number), schema=CHANGES, sink="log")
    write(put, number, *changes_of(seed, number), schema=CHANGES)
"""


def changes_of(seed, number):
    rand = random.Random(seed * 1000 + number)
    return [(rand.randrange(40), f"/{rand.random()}", rand.random() < 0.3) for _ in range(rand.randrange(200))]


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(20))
def test_tables_should_equal_a_model_over_kills_and_pauses(mariadb, shop, seed):
    """The driver is killed or paused, or the server is killed or paused, at moments that the seed chooses."""
    rand, done = random.Random(seed), False
    kinds = ["driver"] if seed == 0 else ["driver", "driver", "pause", "server", "server pause"]
    while not done:
        with subprocess.Popen([sys.executable, "-c", WRITES, shop, str(seed)], stderr=subprocess.DEVNULL) as driver:
            try:
                driver.wait(3 + rand.random() * 3)
                done = driver.returncode == 0
            except subprocess.TimeoutExpired:
                _disturb(rand.choice(kinds), driver, mariadb)
    rows, log = {}, []
    for number in range(12):
        changes = changes_of(seed, number)
        log += changes
        for key, page, gone in sorted(changes, key=lambda change: not change[2]):
            rows.pop(key, None)
            if not gone:
                rows[key] = page
    assert asked(shop) == sorted(rows.items())
    assert sorted(asked(shop, "SELECT id, page, retracted FROM log")) == sorted(log)


def _disturb(kind, driver, mariadb):
    if kind == "pause":
        driver.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        driver.send_signal(signal.SIGCONT)
        time.sleep(0.2)
    elif kind == "server":
        mariadb.kill()
        mariadb.start()
    elif kind == "server pause":
        mariadb.pause()
        time.sleep(0.5)
        mariadb.resume()
    driver.kill()
