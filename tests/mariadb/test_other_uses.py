"""MariaDB where it is neither sink nor log: tables that are polled, dimensions, checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql.types import StringType, StructField, StructType
from sqlalchemy import Column, Text
from sqlalchemy.dialects import mysql

from rs_assets import Dimension
from rs_assets.catalog.offsets.db import DbStorage
from rs_assets.connectors.database.polled import _exact, _field
from rs_assets.errors import ConfigurationError, SchemaError
from rs_assets.operators.dimension.database import DatabaseLoader
from tests.checkpoint.test_storage import row
from tests.postgres.test_polled import poll_of, read


@pytest.mark.parametrize("zone", ["SYSTEM", "+09:00"])
def test_rows_are_polled_when_they_are_as_old_as_the_lag(mariadb, shop, zone):
    mariadb.execute(shop, f"SET GLOBAL time_zone = '{zone}'")
    try:
        mariadb.execute(shop, "CREATE TABLE events (n int, at timestamp(6) NULL, local datetime(6))")
        for n, ago in ((1, 7200), (2, 7200), (3, 5400), (4, 0)):
            mariadb.execute(
                shop,
                f"INSERT INTO events SELECT {n}, t - INTERVAL {ago} SECOND, t - INTERVAL {ago} SECOND FROM"
                " (SELECT date_format(now(), '%Y-%m-%d %H:00:00') t) d",
                "UPDATE events SET at = now(), local = now() WHERE n = 4",
            )
        for column in ("at", "local"):
            found, cursor = read(poll_of(shop, column, lag=timedelta(minutes=30), rows=1))
            assert found == [[1, 2], [3]]
            assert read(poll_of(shop, column, lag=timedelta(minutes=30)), cursor)[0] == []
    finally:
        mariadb.execute(shop, "SET GLOBAL time_zone = 'SYSTEM'")
    with pytest.raises(ConfigurationError, match="can appear late"):
        read(poll_of(shop, "n"))


def test_values_that_are_polled_have_all_digits(mariadb, shop):
    mariadb.execute(
        shop, "CREATE TABLE events (n int, at timestamp(6) NULL, f float, d double, cents decimal(30,10), t time(2),"
        " s set('x', 'y', 'z'), e enum('a', 'it''s', 'b\\nc'), y year)",
        "INSERT INTO events VALUES (1, '2020-01-01', 16777216, 1e-12, 12345678901234567890.0123456789, '-01:00:00.5',"
        " 'z,x', 'b\\nc', 2026)",
        "INSERT INTO events VALUES (2, '2020-01-01', 0.1, NULL, NULL, '838:59:59', '', 'it''s', 0)",
        "INSERT INTO events VALUES (3, '2020-01-01', NULL, 1, 1, NULL, NULL, NULL, NULL)",
    )  # fmt: skip
    lines, _ = poll_of(shop, "at", lag=timedelta(minutes=1)).poll(None)
    rows = [json.loads(line) for line in lines]
    found = sorted((row["n"], row["f"], row["d"], row["t"]) for row in rows if row["n"] < 3)
    assert found == [(1, 16777216.0, 1e-12, "-01:00:00.50"), (2, pytest.approx(0.1), None, "838:59:59.00")]
    assert [row["cents"] for row in rows if row["n"] == 1] == ["12345678901234567890.0123456789"]
    assert [row["f"] for row in rows if row["n"] == 3] == [None]
    assert {row["n"]: row["s"] for row in rows} == {1: "x,z", 2: "", 3: None}
    assert {row["n"]: (row["e"], row["y"]) for row in rows} == {1: ("b\nc", 2026), 2: ("it's", 0), 3: (None, None)}


def test_a_year_is_a_number_and_a_time_as_the_server_writes_it():
    kinds = {"y": mysql.YEAR(), "e": mysql.ENUM("a"), "t": mysql.TIME(fsp=2), "z": mysql.TIME()}
    assert {name: _field(kind, sqlite=False) for name, kind in kinds.items()} == {
        "y": "int", "e": "string", "t": "string", "z": "string"
    }  # fmt: skip
    made = str(_exact(Column("t", kinds["t"]), "mysql").compile(dialect=mysql.dialect()))
    assert made == "CAST(t AS CHAR)"
    assert _exact(Column("e", kinds["e"]), "mysql").element.type.__class__ is Text


def test_a_year_an_enum_and_times_of_a_dimension_are_those_of_the_server(mariadb, shop):
    mariadb.execute(
        shop, "CREATE TABLE hours (y year, e enum('a', 'b\\nc'), t time(2), z time)",
        "INSERT INTO hours VALUES (2026, 'b\\nc', '-25:00:00.5', '00:00:00'), (NULL, NULL, NULL, '838:59:59')",
    )  # fmt: skip
    wanted = [{"y": 2026, "e": "b\nc", "t": "-25:00:00.50", "z": "00:00:00"},
              {"y": None, "e": None, "t": None, "z": "838:59:59"}]  # fmt: skip
    text = StructType([StructField("t", StringType())])
    for of in ({"table": "hours"}, {"sql": "SELECT y, e, t, z FROM hours"}):
        loader = DatabaseLoader(Dimension.from_database(shop, **of).origin)
        assert loader.load(None).to_pylist() == wanted
        assert loader.load(text).to_pylist() == [{"t": row["t"]} for row in wanted]


@pytest.mark.parametrize("zone", ["SYSTEM", "+09:00"])
def test_times_of_a_dimension_are_moments_whatever_the_zone_of_the_server_is(mariadb, shop, zone):
    mariadb.execute(shop, f"SET GLOBAL time_zone = '{zone}'")
    try:
        mariadb.execute(
            shop, "CREATE TABLE rates (at timestamp(6) NULL, local datetime)", "SET time_zone = '+00:00'",
            "INSERT INTO rates VALUES ('2024-03-01 12:00:00', '2024-03-01 12:00:00')",
        )  # fmt: skip
        (row,) = DatabaseLoader(Dimension.from_database(shop, table="rates").origin).load(None).to_pylist()
    finally:
        mariadb.execute(shop, "SET GLOBAL time_zone = 'SYSTEM'")
    assert row == dict.fromkeys(("at", "local"), datetime(2024, 3, 1, 12, tzinfo=UTC))


def test_a_dimension_has_the_rows_of_a_table(mariadb, shop):
    mariadb.execute(
        shop, "CREATE TABLE people (`key` int, name text CHARACTER SET utf8mb4, cents decimal(9,2), at datetime(6))",
        "INSERT INTO people VALUES (1, 'ü😀', 1.50, '2024-03-01 12:00:00.000005'), (2, '', NULL, NULL)",
    )  # fmt: skip
    dimension = Dimension.from_database(shop, table="people")
    rows = DatabaseLoader(dimension.origin).load(None).to_pylist()
    assert rows[0]["name"] == "ü😀"
    assert rows[0]["cents"] == Decimal("1.50")
    assert (rows[1]["key"], rows[1]["name"], rows[1]["at"]) == (2, "", None)


def test_numbers_of_a_dimension_have_all_digits(mariadb, shop):
    """The server writes six digits of a FLOAT."""
    mariadb.execute(shop, "CREATE TABLE rates (k int, f float)", "INSERT INTO rates VALUES (1, 16777216), (2, NULL)")
    whole = Dimension.from_database(shop, table="rates")
    assert DatabaseLoader(whole.origin).load(None).to_pylist() == [{"k": 1, "f": 16777216.0}, {"k": 2, "f": None}]
    asked = Dimension.from_database(shop, sql="SELECT k, f FROM rates")
    with pytest.raises(SchemaError, match="'f' of the query of a dimension is a FLOAT") as refused:
        DatabaseLoader(asked.origin).load(None)
    sql = refused.value.remedy.partition(": ")[2].replace("...", "k") + " FROM rates ORDER BY k"
    rows = DatabaseLoader(Dimension.from_database(shop, sql=sql).origin).load(None).to_pylist()
    assert rows == [{"k": 1, "f": 16777216.0}, {"k": 2, "f": None}]


def test_checkpoints_are_kept_in_utc_and_by_exact_keys(mariadb, shop):
    storage = DbStorage(shop)
    rows = [row(n, str(n), topic=topic) for n, topic in enumerate(("clicks", "Clicks", "ü😀", "klick "))]
    storage.save(rows)
    storage.save([replace(rows[0], batch_id=7, offset="9")])
    found = {each.topic: (each.batch_id, each.offset) for each in DbStorage(shop).rows()}
    assert found == {"clicks": (7, "9"), "Clicks": (1, "1"), "ü😀": (2, "2"), "klick ": (3, "3")}
    changed = mariadb.execute(shop, "SELECT max(gmt_modified) FROM checkpoint_snapshot")[0][0]
    assert abs(changed.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=1)
