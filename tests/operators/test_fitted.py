"""Tables of functions: a value stays what it is, or its field is named. No Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from rs_assets.compile.python.fitted import UnfitError, fitted, series_kept
from rs_assets.records.ddl import arrow_schema

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
FIVE = MIDNIGHT + timedelta(hours=5)
TAGS = pa.map_(pa.string(), pa.bool_())


def fit(values: pa.Array, kind: str) -> list[object]:
    schema = arrow_schema(f"v {kind}")
    assert schema is not None
    made = fitted(pa.table({"v": values}), schema, what="rows", remedy="")
    assert made.schema == schema
    return made.column("v").to_pylist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([True]), "double"),
        (pa.array([0.5]), "boolean"),
        (pa.array(["5"]), "bigint"),
        (pa.array([5]), "string"),
        (pa.array([5]), "timestamp"),
        (pa.array([5], pa.int32()), "date"),
        (pa.array([FIVE]), "date"),
        (pa.array([1], pa.timestamp("ns")), "timestamp"),
        (pa.array([timedelta(seconds=1)]), "bigint"),
        (pa.array([0.5]), "bigint"),
        (pa.array([0.125]), "decimal(5,2)"),
        (pa.array([1e300]), "float"),
        (pa.array([[True]]), "array<double>"),
        (pa.array([[MIDNIGHT, FIVE]]), "array<date>"),
        (pa.array([[("k", True)]], TAGS), "map<string,double>"),
        (pa.array([{"y": 1}]), "struct<x:bigint>"),
        (pa.array([{"x": 1, "y": 1}]), "struct<x:bigint>"),
        (pa.array([{"x": 1}]), "struct<x:bigint,y:string>"),
    ],
)
def test_a_type_that_would_change_the_values_is_refused(values: pa.Array, kind: str) -> None:
    with pytest.raises(UnfitError, match="returned rows that do not fit the schema: "):
        fit(values, kind)


@pytest.mark.parametrize(
    ("values", "kind", "made"),
    [
        (pa.array([1.0, None]), "bigint", [1, None]),
        (pa.array([1, 2], pa.int8()), "double", [1.0, 2.0]),
        (pa.array([0.1]), "decimal(5,2)", [Decimal("0.10")]),
        (pa.array([0.5, float("inf")]), "float", [0.5, float("inf")]),
        (pa.array(["x"], pa.large_string()), "string", ["x"]),
        (pa.array(["x"]).dictionary_encode(), "string", ["x"]),
        (pa.array([MIDNIGHT, None], pa.timestamp("ns")), "date", [date(2026, 1, 5), None]),
        (pa.array([FIVE.replace(tzinfo=None)]), "timestamp", [FIVE]),
        (pa.array([None, None]), "struct<x:bigint>", [None, None]),
        (pa.array([{"y": 1, "x": 2}, None]), "struct<x:bigint,y:bigint>", [{"x": 2, "y": 1}, None]),
        (pa.array([[1.0], [], None]), "array<bigint>", [[1], [], None]),
    ],
)
def test_values_that_stay_what_they_are_get_their_type(values: pa.Array, kind: str, made: list[object]) -> None:
    assert fit(values, kind) == made


def test_the_field_is_named_with_both_types() -> None:
    with pytest.raises(UnfitError, match="v is boolean, not double, which would change its values"):
        fit(pa.array([True]), "double")


@pytest.mark.parametrize(
    ("series", "kind"),
    [
        (pd.Series([True]), pa.float64()),
        (pd.Series([True], dtype=object), pa.float64()),
        (pd.Series([0.5]), pa.bool_()),
        (pd.Series([5]), pa.timestamp("us", "UTC")),
        (pd.Series([pd.Timestamp("2026-01-05 05:00")]), pa.date32()),
        (pd.Series([1e300]), pa.float32()),
        (pd.Series([5], dtype="Int64"), pa.string()),
    ],
)
def test_a_series_that_would_be_changed_is_refused(series: pd.Series, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="it returned "):
        series_kept(series, kind)


@pytest.mark.parametrize(
    ("series", "kind", "made"),
    [
        (pd.Series([1, None], dtype="Int64"), pa.int64(), [1, None]),
        (pd.Series([1.0]), pa.int64(), [1]),
        (pd.Series(["a", None], dtype=object), pa.string(), ["a", None]),
        (pd.Series(["a", None], dtype="string[pyarrow]"), pa.string(), ["a", None]),
        (pd.Series([Decimal("1.50")]), pa.decimal128(5, 2), [Decimal("1.50")]),
        (pd.Series([{"x": 1}]), pa.struct([("x", pa.int64())]), [{"x": 1}]),
        (pd.Series([pd.Timestamp("2026-01-05 05:00", tz="UTC")]), pa.timestamp("us", "UTC"), [FIVE]),
    ],
)
def test_a_series_that_stays_what_it_is_gets_its_type(series: pd.Series, kind: pa.DataType, made: list[object]) -> None:
    assert series_kept(series, kind).to_pylist() == made


def test_not_a_number_of_a_series_is_no_null() -> None:
    assert series_kept(pd.Series([float("nan")]), pa.float64()).null_count == 0
