"""ROW_NUMBER() ordered in both directions, against Python: null is less than all values, NaN is greater."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver

LEAST = -(2**63)
COLUMNS = "g INT, v BIGINT, d DOUBLE, p DECIMAL(8, 2), at TIMESTAMP(3), id INT"
VALUES: dict[str, list[Any]] = {
    "v": [None, LEAST, 7],
    "d": [None, math.nan, -1.5, math.inf],
    "p": [None, Decimal("-2.05"), Decimal("1.10")],
    "at": [None, datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC)],
}
# The columns of ORDER BY, with their directions.
ORDERS = {
    "up": [("g", False), ("v", True), ("d", True), ("p", True), ("at", True)],
    "down": [("g", True), ("at", False), ("p", False), ("d", False), ("v", False)],
}
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def place(value: Any) -> tuple[int, Any]:
    """A value in ascending order."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def wanted(rows: list[dict[str, Any]], order: list[tuple[str, bool]]) -> list[int]:
    found = rows
    for name, descends in reversed(order):
        found = sorted(found, key=lambda row, name=name: place(row[name]), reverse=descends)
    return [row["id"] for row in found]


def test_nulls_and_nan_have_their_place_in_both_directions(driver: SparkDriver) -> None:
    rows = [
        {"g": 1, **dict(zip(VALUES, values, strict=True)), "id": number, "ts": BEGIN + timedelta(seconds=number)}
        for number, values in enumerate(product(*VALUES.values()))
    ]
    text = f"CREATE TABLE t ({COLUMNS}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'memory');"
    for name, order in ORDERS.items():
        by = ", ".join(f"{column} {'DESC' if descends else 'ASC'}" for column, descends in order)
        text += f"""CREATE TABLE {name} (id INT, rn BIGINT) WITH ('connector' = 'print');
            INSERT INTO {name} SELECT id, rn FROM (SELECT id, ROW_NUMBER() OVER (
                PARTITION BY window_start, window_end ORDER BY {by}) AS rn
                FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))) AS s WHERE rn <= 200;"""
    found = pipeline_from_sql(text, tables={"t": []}).try_(rows[::-1], spark=driver)
    for name, order in ORDERS.items():
        numbered = {row["rn"]: row["id"] for row in found[name]}
        assert [numbered[n] for n in sorted(numbered)] == wanted(rows, order), name


def test_columns_may_have_the_names_that_the_ranking_gives_its_fields(driver: SparkDriver) -> None:
    columns = "part_1 INT, order_1 INT, Order_2 INT, g INT, v INT, w INT"
    text = f"CREATE TABLE t ({columns}) WITH ('connector' = 'memory');"
    ranked = """SELECT part_1, order_1, Order_2, rn FROM (SELECT part_1, order_1, Order_2,
        ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, w DESC) AS rn FROM t) AS s WHERE rn <= 2"""
    text += f"""CREATE TABLE o (part_1 INT, order_1 INT, Order_2 INT, rn BIGINT) WITH ('connector' = 'print');
        INSERT INTO o {ranked};"""
    rows = [dict(zip(["part_1", "order_1", "Order_2", "g", "v", "w"], (1, 2, 3, 4, n, 6), strict=True)) for n in (0, 5)]
    found = pipeline_from_sql(text, tables={"t": []}).try_(rows, spark=driver)
    assert [(row["part_1"], row["order_1"], row["Order_2"]) for row in found["o"]] == [(1, 2, 3)] * 2


def test_decimals_of_38_digits_are_turned_with_all_of_them(driver: SparkDriver) -> None:
    """Spark's minus and its `abs` keep 34 digits."""
    text = "CREATE TABLE t (id INT, g INT, p DECIMAL(38, 10)) WITH ('connector' = 'memory');"
    text += """CREATE TABLE o (id INT, rn BIGINT) WITH ('connector' = 'print');
        INSERT INTO o SELECT id, rn FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY g, p DESC) AS rn FROM t) AS s
        WHERE rn <= 4;
        CREATE TABLE v (id INT, opposite DECIMAL(38, 10), size DECIMAL(38, 10)) WITH ('connector' = 'print');
        INSERT INTO v SELECT id, -p, ABS(p) FROM t;"""
    values = [*map(Decimal, ["1234567890123456789012345678.1234567891", "1234567890123456789012345678.1234567892"])]
    values += [values[1].copy_negate(), Decimal(0)]
    rows = [{"id": number, "g": 1, "p": value} for number, value in enumerate(values)]
    found = pipeline_from_sql(text, tables={"t": []}).try_(rows, spark=driver)
    assert {row["rn"]: row["id"] for row in found["o"]} == {1: 1, 2: 0, 3: 3, 4: 2}
    assert [(row["opposite"], row["size"]) for row in sorted(found["v"], key=lambda row: row["id"])] == [
        (value.copy_negate(), value.copy_abs()) for value in values
    ]
