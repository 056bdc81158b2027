"""Comparisons of exact numbers that need more than 38 digits together, of which Spark rounds one, against Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from itertools import permutations
from random import Random
from typing import Any

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver

Row = dict[str, Any]
TYPES = {"a": "DECIMAL(38, 20)", "b": "BIGINT", "c": "DECIMAL(38, 0)", "d": "DECIMAL(38, 10)", "e": "DECIMAL(20, 19)"}
VALUES: dict[str, list[Any]] = {
    "a": [None, *map(Decimal, ["1.00000000000000000001", "-1.00000000000000000001", "1", "-1", "123456789012345678"])],
    "b": [None, 1, -1, 0, 2**63 - 1, 123456789012345678],
    "c": [None, *map(Decimal, [1, -1, 0, 10**37, 123456789012345678])],
    "d": [None, *map(Decimal, ["1.0000000001", "1", "-0.9999999999", "1234567890123456789012345678.1234567891", "-1"])],
    "e": [None, *map(Decimal, ["1.0000000000000000001", "1", "-1", "-0.0000000000000000001", "0"])],
}
SIGNS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def compared(one: str, sign: Callable[[Any, Any], bool], two: str) -> Callable[[Row], bool | None]:
    return lambda row: None if row[one] is None or row[two] is None else sign(row[one], row[two])


def same(one: Any, two: Any) -> bool | None:
    return None if one is None or two is None else one == two


def any_of(found: list[bool | None]) -> bool | None:
    return True if True in found else None if None in found else False


EXPRESSIONS: dict[str, Callable[[Row], bool | None]] = {
    **{f"{x} {sign} {y}": compared(x, how, y) for x, y in permutations(TYPES, 2) for sign, how in SIGNS.items()},
    **{f"{x} IS NOT DISTINCT FROM {y}": lambda row, x=x, y=y: row[x] == row[y] for x, y in permutations(TYPES, 2)},
    "a IN (b, c)": lambda row: any_of([same(row["a"], row[name]) for name in "bc"]),
    "b IN (c, d)": lambda row: any_of([same(row["b"], row[name]) for name in "cd"]),
    "CASE c WHEN d THEN TRUE WHEN a THEN TRUE ELSE FALSE END": lambda row: (
        any_of([same(row["c"], row[name]) for name in "da"]) or False
    ),
    "NULLIF(c, d) IS NULL": lambda row: row["c"] is None or row["c"] == row["d"],
    "NOT (a NOT BETWEEN b AND b)": compared("a", operator.eq, "b"),
    "a = 1": lambda row: same(row["a"], 1),
    "d > 1.00000000005": lambda row: None if row["d"] is None else row["d"] > Decimal("1.00000000005"),
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    dice = Random(3)
    return [{"id": number, **{name: dice.choice(each) for name, each in VALUES.items()}} for number in range(100)]


def test_no_number_is_rounded_before_it_is_compared(driver: SparkDriver, rows: list[Row]) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    made = ", ".join(f"x{number} BOOLEAN" for number in range(len(EXPRESSIONS)))
    text = f"""CREATE TABLE t (id INT, {columns}) WITH ('connector' = 'memory');
        CREATE TABLE o (id INT, {made}) WITH ('connector' = 'print');
        INSERT INTO o SELECT id, {", ".join(EXPRESSIONS)} FROM t;"""
    found = pipeline_from_sql(text, tables={"t": []}).try_(rows, spark=driver)["o"]
    assert len(found) == len(rows)
    wrong = [
        (text, rows[row["id"]], row[f"x{number}"])
        for row in found
        for number, (text, holds) in enumerate(EXPRESSIONS.items())
        if row[f"x{number}"] != holds(rows[row["id"]])
    ]
    assert not wrong, wrong[:3]
