"""Two sides of a table: sums of hashes decide which parts are compared row by row, and hide no difference."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.errors import ConfigurationError
from rs_assets.runtime.recorded.comparison import Comparison, Parts
from rs_assets.runtime.recorded.difference import Difference
from rs_assets.runtime.recorded.digest import comparable

NAN = float("nan")
NOON = datetime(2026, 1, 5, 12, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None)
LATER = NOON.replace(microsecond=2)
LONG = Decimal("12345678901234567890.12")


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that were compared row by row."""
    names, compared = list[str](), Comparison._row_by_row

    def noted(self: Comparison, columns: Any, before: DataFrame, after: DataFrame, partition: str) -> Difference:
        names.append(partition)
        return compared(self, columns, before, after, partition)

    monkeypatch.setattr(Comparison, "_row_by_row", noted)
    return names


def found(before: DataFrame, after: DataFrame, *keys: str, target: Path | None = None) -> Difference:
    return Comparison(keys=keys, target=target, version=3).of(comparable(before), comparable(after), Parts.whole())


SAME: dict[str, tuple[str, list[Any], list[Any]]] = {
    "no rows": ("n int", [], []),
    "order": ("n int, s string", [(1, "a"), (2, "b"), (1, "a")], [(1, "a"), (1, "a"), (2, "b")]),
    "nulls": ("n int, s string", [(None, None), (1, None)], [(1, None), (None, None)]),
    "zeros": ("d double, f float", [(0.0, -0.0)], [(-0.0, 0.0)]),
    "digits": ("d double", [(0.1 + 0.2,)], [(0.3,)]),
    "nan": ("d double, a array<double>", [(NAN, [NAN])], [(NAN, [NAN])]),
    "decimals": ("c decimal(9,2)", [(Decimal("1.1"),)], [(Decimal("1.10"),)]),
    "nested": ("o struct<a: map<string, int>, b: array<int>>", [(({"a": 1}, [None]),)], [(({"a": 1}, [None]),)]),
}
OTHER: dict[str, tuple[str, list[Any], list[Any], tuple[int, int]]] = {
    "as often": ("n int", [(1,), (1,), (2,)], [(1,), (2,), (2,)], (1, 1)),
    "once more": ("n int", [(1,)], [(1,), (1,)], (0, 1)),
    "none": ("n int", [(1,)], [], (1, 0)),
    "nulls": ("n int, m int", [(1, None)], [(None, 1)], (1, 1)),
    "null and empty": ("s string", [("",)], [(None,)], (1, 1)),
    "texts": ("s string, t string", [("ab", "")], [("a", "b")], (1, 1)),
    "nan": ("d double", [(NAN,)], [(None,)], (1, 1)),
    "infinite": ("d double", [(float("inf"),)], [(float("-inf"),)], (1, 1)),
    "decimals": ("c decimal(38,2)", [(LONG,)], [(LONG + Decimal("0.01"),)], (1, 1)),
    "times": ("t timestamp", [(NOON,)], [(LATER,)], (1, 1)),
    "bytes": ("b binary", [(b"\x00",)], [(b"",)], (1, 1)),
    "nulls in lists": ("a array<int>", [([1, None],)], [([None, 1],)], (1, 1)),
    "lists": ("a array<array<int>>", [([[1], [2]],)], [([[1, 2]],)], (1, 1)),
    "null and empty lists": ("a array<int>", [([],)], [(None,)], (1, 1)),
    "structs": ("o struct<a: int, b: int>", [((1, None),)], [((None, 1),)], (1, 1)),
    "maps": ("m map<string, int>", [({"a": None},)], [({},)], (1, 1)),
    "times in maps": ("m map<string, timestamp_ntz>", [({"a": NOON},)], [({"a": LATER},)], (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_rows_of_equal_sums_are_not_compared_one_by_one(spark: SparkSession, by_rows: list[str], name: str) -> None:
    schema, before, after = SAME[name]
    made = found(spark.createDataFrame(before, schema), spark.createDataFrame(after, schema))
    assert (made.empty, made.rows_before, made.rows_after, made.version, by_rows) == (
        True, len(before), len(after), 3, [],
    )  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_rows_that_differ_have_other_sums(spark: SparkSession, by_rows: list[str], name: str) -> None:
    schema, before, after, only = OTHER[name]
    made = found(spark.createDataFrame(before, schema), spark.createDataFrame(after, schema))
    assert (made.only_before, made.only_after, by_rows) == (*only, [""])
    assert (made.rows_before, made.rows_after) == (len(before), len(after))


def test_rows_of_other_sums_are_equal_where_spark_says_so(spark: SparkSession, by_rows: list[str]) -> None:
    sides = [spark.createDataFrame([([zero],), ([1.0],)], "a array<double>") for zero in (0.0, -0.0)]
    made = found(*sides)
    assert (made.empty, made.rows_before, made.rows_after, by_rows) == (True, 2, 2, [""])


def test_columns_that_differ_are_named_though_all_rows_are_equal(spark: SparkSession) -> None:
    before = spark.createDataFrame([(1, "a b", 2)], "n int, s string, gone int").withColumn("s", F.array("s"))
    after = spark.createDataFrame([(1, "a b", 2)], "n bigint, s string, new int").withColumn("s", F.split("s", ","))
    made = found(before, after)
    assert (made.columns_added, made.columns_removed, made.columns_retyped) == (("new",), ("gone",), ("n",))
    assert (made.only_before, made.only_after, made.empty) == (0, 0, False)


def test_equal_sides_with_keys_that_repeat_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "a"), (1, "b"), (2, "c")], "n int, s string")
    with pytest.raises(ConfigurationError, match="the table has 2 rows with the same n"):
        found(rows, rows.select("*"), "n")
    assert found(rows, rows.select("*"), "n", "s").empty
    with pytest.raises(ConfigurationError, match="'m' is not a field of both sides"):
        found(rows, rows.select("*"), "m")
    target = tmp_path / "difference"
    assert found(rows, rows.select("*"), target=target).empty
    written = DeltaTable(str(target)).to_pyarrow_table()
    assert (written.num_rows, written.column_names) == (
        0, ["partition", "change", "rows", "columns", "before", "after"],
    )  # fmt: skip


def test_only_parts_that_differ_are_compared_row_by_row(spark: SparkSession, by_rows: list[str]) -> None:
    hours = [datetime(2026, 1, 5, hour, tzinfo=UTC) for hour in (10, 11, 12)]
    schema = "hour timestamp, n int"
    before = spark.createDataFrame([(hours[0], 1), (hours[0], 1), (hours[1], 2)], schema)
    after = spark.createDataFrame([(hours[0], 1), (hours[0], 1), (hours[1], 3)], schema)
    places = {f"2026-01-05 {hour.hour}:00:00": f"{hour.hour}" for hour in hours}
    comparison = Comparison(keys=("n",), target=None, version=0)
    with pytest.raises(ConfigurationError, match="the partition 10 has 2 rows with the same n"):
        comparison.of(before, after, Parts(F.col("hour").cast("string"), places))
    by_rows.clear()
    made = Comparison(keys=(), target=None, version=0).of(before, after, Parts(F.col("hour").cast("string"), places))
    assert (made.partitions, by_rows) == (("10", "11", "12"), ["11"])
    assert (made.rows_before, made.rows_after, made.only_before, made.only_after) == (3, 3, 1, 1)
