"""Rows of a program as tables: a value is what it was, or the row and the field are named."""

from __future__ import annotations

from array import array
from collections import deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from rs_assets.errors import SchemaError
from rs_assets.records.ddl import arrow_schema
from rs_assets.records.rows import as_dicts, infer_schema, to_table

MOMENT = datetime(2026, 1, 5, 10, 0, 0, 123456, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC).replace(tzinfo=None)
ALL = "a bigint, b double, c string, d timestamp, e date, f array<bigint>, g map<string,bigint>, h struct<x:int,y:date>"


class Pair(NamedTuple):
    b: int
    a: int


def schema(ddl: str) -> pa.Schema:
    made = arrow_schema(ddl)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("v bigint", 1.5),
        ("v bigint", Decimal("1.5")),
        ("v bigint", Decimal("sNaN")),
        ("v bigint", Decimal("1E+30")),
        ("v bigint", float("nan")),
        ("v bigint", True),
        ("v bigint", 2**63),
        ("v tinyint", 128),
        ("v double", 2**53 + 1),
        ("v float", 1e300),
        ("v decimal(10,2)", Decimal("1.005")),
        ("v timestamp", 5),
        ("v timestamp", 5.5),
        ("v timestamp", "tomorrow"),
        ("v timestamp_ntz", 1767607200000),
        ("v date", MOMENT),
        ("v date", 7),
        ("v string", 5),
        ("v string", "\ud800"),
        ("v bigint not null", None),
        ("v array<bigint>", [1, 2.5]),
        ("v array<array<date>>", [[], [date(2026, 1, 5)], None, [None, MOMENT]]),
        ("v map<string,int>", {"k": 1.5}),
        ("v map<bigint,string>", [(1.5, "x")]),
        ("v struct<page:string>", {"pagee": "x"}),
        ("v struct<n:bigint>", {"n": 1.5}),
        ("v array<struct<n:bigint>>", [{"n": 1}, {"m": 1}]),
        ("v struct<n:bigint>", [("n", np.float32(0.5))]),
        ("v struct<n:bigint>", [("n", 1), ("m", 1)]),
        ("v double", True),
        ("v float", True),
        ("v map<string,double>", {"k": False}),
        ("v bigint", np.float32(0.5)),
        ("v bigint", np.bool_(True)),
        ("v bigint", np.datetime64("2026-01-05", "ns")),
        ("v date", np.int64(5)),
        ("v date", np.datetime64("2026-01-05")),
        ("v timestamp", np.int64(5)),
        ("v timestamp", np.array([1, 2])),
        ("v array<bigint>", np.array([0.5])),
        ("v array<bigint>", np.array([True])),
        ("v array<bigint>", b"ab"),
        ("v array<bigint>", bytearray(b"ab")),
        ("v array<array<bigint>>", np.array([[1.0, 2.5]])),
        ("v array<date>", {5}),
        ("v array<timestamp>", np.array(["2026-01-05"], dtype="datetime64[s]")),
        ("v timestamp", pd.Timestamp("2026-01-05 00:00:00.123456789")),
        ("v bigint", Fraction(1, 2)),
        ("v int", ip_address("10.0.0.1")),
        ("v int", UUID(int=5)),
        ("v bigint", np.complex64(1)),
        ("v date", Fraction(5)),
        ("v date", pd.NaT),
        ("v timestamp", Fraction(5)),
        ("v array<bigint>", deque([2.5])),
        ("v array<bigint>", array("d", [2.5])),
        ("v array<bigint>", {"a": 2.5}.values()),
        ("v struct<a:bigint,b:bigint>", Pair(1, 2)),
        ("v struct<a:bigint,b:bigint>", Row(b=1, a=2)),
        ("v struct<a:bigint>", (np.float32(0.5),)),
        ("v struct<a:bigint>", ""),
        ("v struct<a:bigint>", []),
        ("v struct<a:bigint>", [("a", 1), ("a", 2)]),
        ("v map<string,int>", ""),
        ("v map<string,int>", [None]),
        ("v map<string,int>", [("a", 1), None]),
        ("v map<string,int>", [("a", 1), ("a", 2)]),
        ("v map<string,int>", deque([("a", 2.5)])),
    ],
)
def test_a_value_that_would_be_changed_is_refused_with_its_row(ddl: str, value: object) -> None:
    with pytest.raises(SchemaError, match=r"^row 1: v=") as refused:
        to_table([{}, {"v": value}] if "not null" not in ddl else [{"v": 1}, {"v": value}], schema(ddl))
    assert (refused.value.facts["row"], refused.value.facts["field"]) == (1, "v")
    declared = ddl.removeprefix("v ").removesuffix(" not null")
    assert refused.value.what.endswith((f"is not of type {declared}", "is not a timestamp"))


def test_values_come_out_as_they_went_in() -> None:
    row = {"a": -(2**63), "b": 0.1, "c": "ü", "d": MOMENT, "e": date(1, 1, 1), "f": [1, None]}
    row |= {"g": {"k": None}, "h": {"x": 1, "y": date(9999, 12, 31)}}
    nulls = dict.fromkeys(row)
    assert as_dicts(to_table([row, nulls, {}], schema(ALL))) == [row, nulls, nulls]


def test_what_means_the_same_is_taken() -> None:
    ddl = "a bigint, d timestamp, e date, g map<string,bigint>"
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5)))
    rows = [
        {"a": 2.0, "d": "2026-01-05 10:00:00.123456", "e": datetime(2026, 1, 5, tzinfo=UTC), "g": [("k", 1)]},
        {"a": Decimal(2), "d": elsewhere, "e": date(2026, 1, 5), "g": {"k": 1}},
    ]
    first, second = as_dicts(to_table(rows, schema(ddl)))
    assert first == second == {"a": 2, "d": MOMENT, "e": date(2026, 1, 5), "g": {"k": 1}}


@pytest.mark.parametrize(
    ("ddl", "value", "kept"),
    [
        ("v bigint", np.int32(5), 5),
        ("v bigint", np.float32(2), 2),
        ("v double", np.float32(0.5), 0.5),
        ("v boolean", np.bool_(True), True),
        ("v array<bigint>", np.array([1, 2]), [1, 2]),
        ("v array<bigint>", {3}, [3]),
        ("v timestamp_ntz", np.datetime64(MOMENT.replace(tzinfo=None)), MOMENT.replace(tzinfo=None)),
        ("v array<timestamp_ntz>", np.array(["2026-01-05"], dtype="datetime64[us]"), [MIDNIGHT]),
        ("v timestamp", pd.Timestamp("2026-01-05", tz="UTC"), datetime(2026, 1, 5, tzinfo=UTC)),
        ("v array<bigint>", deque([1, 2.0]), [1, 2]),
        ("v array<bigint>", {"a": 2}.values(), [2]),
        ("v bigint", pa.scalar(5), 5),
        ("v struct<b:bigint,a:bigint>", Pair(1, 2), {"b": 1, "a": 2}),
        ("v struct<b:bigint,a:bigint>", (1, 2), {"b": 1, "a": 2}),
        ("v struct<b:bigint,a:bigint>", [("b", 1)], {"b": 1, "a": None}),
        ("v map<string,int>", deque([("a", 1)]), {"a": 1}),
        ("v map<string,int>", [], {}),
    ],
)
def test_values_of_numpy_and_pandas_are_taken_if_they_stay_what_they_are(ddl, value, kept) -> None:
    [row] = as_dicts(to_table([{"v": value}], schema(ddl)))
    assert row == {"v": kept}


def test_maps_with_keys_that_no_dict_has_stay_pairs() -> None:
    table = to_table([{"m": [({"x": 1}, 2)]}], schema("m map<struct<x:bigint>,bigint>"))
    assert as_dicts(table) == [{"m": [({"x": 1}, 2)]}]


def test_the_schema_of_rows_has_the_fields_of_all_of_them() -> None:
    made = infer_schema([{"a": 1}, {"b": "x", "a": 2.5}, {"c": [{"n": 1}, {"m": MOMENT}]}], step="array")
    assert [(f.name, str(f.type)) for f in made][:2] == [("a", "double"), ("b", "string")]
    assert made.names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([{"a": 1}, {"a": 2**63}], "row 1: a=9223372036854775808 does not fit the earlier"),
        ([{"a": 1}, {"a": 2}, {"a": "x"}], "row 2: a='x' does not fit the earlier"),
        ([{"a": "\ud800"}], "row 0: a='.ud800' does not fit the earlier"),
        ([{"a": date(2026, 1, 5)}, {"a": MOMENT}], "row 1: a=.* is not of type date"),
        ([{"a": {}}], "a is a dict without fields"),
        ([{"a": [{"b": {}}]}], "a.*b is a dict without fields"),
        ([{"a": None, "b": 1}], "a is None in all rows"),
        ([{"a": []}], "a.* is None in all rows"),
        ([{"a": time(10)}], "a is a time64.*, for which Spark has no type"),
        ([{"a": {1: 2}}], "row 0: a=.* does not fit the earlier"),
        ([{1: 2}], "a field 1; names are text"),
        ([{"a": 1}, {"A": 2}], "the fields 'a' and 'A', which Spark cannot distinguish"),
    ],
)
def test_rows_without_a_common_schema_are_refused_by_row_and_field(rows: list[dict], what: str) -> None:
    with pytest.raises(SchemaError, match=what) as refused:
        infer_schema(rows, step="array")
    assert refused.value.remedy


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_whole_numbers_are_what_they_were(values: list[int | None]) -> None:
    table = to_table([{"v": value} for value in values], schema("v bigint"))
    assert table.column("v").to_pylist() == values


@pytest.mark.parametrize(
    ("ddl", "arrow"),
    [
        ("a long, b: INT NOT NULL COMMENT 'it''s, fine'", None),
        ("a LONG, b: int not null comment 'fine, too'", "a: int64\nb: int32 not null"),
        ("`odd ``name` decimal(38, 18), d dec", "odd `name: decimal128(38, 18)\nd: decimal128(10, 0)"),
        ("s struct<a: array<map<string, date>>, b: timestamp>", "s: struct<a: list<item: map<string, date32[day]>>"),
        ("a strin", None),
        ("a varchar(3)", None),
        ("a", None),
        ("a int,", None),
        ("a int)", None),
        ("a decimal(99,2)", None),
        ("struct<a:int>", None),
        ("a int; b int", None),
    ],
)
def test_a_schema_is_read_without_spark_or_left_to_it(ddl: str, arrow: str | None) -> None:
    made = arrow_schema(ddl)
    assert made is None if arrow is None else made is not None and str(made).startswith(arrow)
