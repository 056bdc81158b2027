"""Expressions with the values that Apache Flink 2.3 gave, all of them in one run on Spark.

`flink_expressions.jsonl` has the row, and a line an expression: `value` is Flink's, or `error` what it refused or
failed with. A line is `refused` here with a place, `ends` the run, or has another value `here`, `because` of something
that docs/sql.md says, too; all others are equal. `flink_documented.jsonl` has expressions with the values that Flink's
documentation and sources give, over the same row.
"""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver
from rs_assets.sql.plan.session import Session


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()]


LINES = lines("flink_expressions.jsonl")
COLUMNS, CASES = LINES[0]["columns"], LINES[1:]
DOCUMENTED = {case["expression"]: case for case in lines("flink_documented.jsonl")[1:]}
REFUSED = [case["expression"] for case in CASES if case.get("refused")]
ENDING = [case["expression"] for case in CASES if "ends" in case]
VALUES = {case["expression"]: case for case in CASES if not case.get("refused") and "ends" not in case} | DOCUMENTED
TABLE = ", ".join(f"`{column['name']}` {column['type']}" for column in COLUMNS)


def session() -> Session:
    made = Session()
    made.keep(f"CREATE TABLE t ({TABLE}) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json')")
    return made


def taken(column: dict[str, Any]) -> object:
    """The value of a column as rows of Python have it."""
    kind, value = column["type"], column["value"]
    if value is None:
        return None
    if kind.startswith("DECIMAL"):
        return Decimal(value)
    if kind == "DATE":
        return date.fromisoformat(value)
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if kind.startswith("TIMESTAMP") else value


def shown(value: object) -> object:
    """A value as the file has it."""
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def same(found: object, wanted: object) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        near = found == wanted or struct.pack("f", found) == struct.pack("f", wanted)
        return near or (math.isnan(found) and math.isnan(wanted))
    if isinstance(found, str) and isinstance(wanted, str) and wanted.startswith("{'"):
        return sorted(found[1:-1].split(", ")) == sorted(wanted[1:-1].split(", "))
    if isinstance(found, str) and isinstance(wanted, str) and wanted.endswith("000"):
        return found in (wanted, wanted.removesuffix("000"))
    return type(found) is type(wanted) and found == wanted


@pytest.fixture(scope="module")
def found(driver: SparkDriver) -> dict[str, object]:
    """The value of each expression that has one."""
    selected = ", ".join(f"{expression} AS c{n}" for n, expression in enumerate(VALUES))
    pipeline = session().stream(f"SELECT {selected} FROM t").to_print(name="made").build()
    (row,) = pipeline.try_([{column["name"]: taken(column) for column in COLUMNS}], spark=driver)["made"]
    return {expression: shown(row[f"c{n}"]) for n, expression in enumerate(VALUES)}


def test_expressions_have_the_values_of_flink_or_those_that_are_declared(found: dict[str, object]) -> None:
    wanted = {expression: case["here"] if "here" in case else case["value"] for expression, case in VALUES.items()}
    assert {each: value for each, value in found.items() if not same(value, wanted[each])} == {}


@pytest.mark.parametrize("expression", REFUSED)
def test_expression_that_is_not_supported_is_refused_at_its_place(expression: str) -> None:
    with pytest.raises(SqlError) as error:
        session().stream(f"SELECT {expression} AS v FROM t")
    assert (error.value.facts["line"], error.value.facts["column"] >= len("SELECT ")) == (1, True)


def test_sum_that_overflows_ends_the_run(driver: SparkDriver) -> None:
    """Each by itself: Spark computes what is constant before it reads a row."""
    row = {column["name"]: taken(column) for column in COLUMNS}
    frame = driver.call(
        lambda spark: spark.createDataFrame([(row["m"], row["mi"], row["mb"])], "m int, mi int, mb long")
    )
    for expression in ENDING:
        with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            driver.call(lambda _, text=expression: frame.selectExpr(text).collect())


def test_differences_are_few_and_each_has_a_reason() -> None:
    declared = [case for case in CASES if "here" in case]
    assert (len(CASES), len(declared), len(ENDING)) == (451, 17, 4)
    assert all(case["because"] for case in declared)
