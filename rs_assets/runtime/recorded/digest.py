"""Rows as values that are equal where two computations give the same, and digests of them: sums of hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from rs_assets.records.contained import contains
from rs_assets.records.poison import EXACT
from rs_assets.records.schema import quoted

# Sums of floating-point numbers depend on the order of rows: they are compared to so many digits after the first.
DIGITS: Final = "%.11e"
# In a text of JSON a null is a value, and a time has its microseconds.
AS_JSON: Final = dict(EXACT)
# A hash is summed in slices of so many bits: a sum of them has room for 2^47 rows.
SLICE_BITS: Final = 16
# Types whose values cannot be compared.
WITHOUT_ORDER: Final = (MapType, VariantType)


def comparable(rows: DataFrame) -> DataFrame:
    """The rows with values that are equal, and have equal hashes, where two computations give the same."""
    return rows.select(*(_same(rows[quoted(each.name)], each.dataType).alias(each.name) for each in rows.schema))


def hashed(each: StructField) -> tuple[Column, ...]:
    """What the hash of a row takes of a field: Spark's passes over a null, also in a list, wherever it is."""
    column = F.col(quoted(each.name))
    nested = isinstance(each.dataType, ArrayType | StructType)
    return (column.isNull(), column, *([F.to_json(column, AS_JSON)] if nested else ()))


def sums(fields: Iterable[StructField]) -> list[Column]:
    """Sums over rows with these fields; two frames with equal sums have equal rows, each as often.

    That they have not is as likely as one in 2^96.
    """
    parts = [F.lit(0), *(part for each in fields for part in hashed(each))]
    return [F.sum(each) for each in (*_slices(F.xxhash64(*parts), 64), *_slices(F.hash(*parts).cast("bigint"), 32))]


def _slices(number: Column, bits: int) -> Iterator[Column]:
    mask = F.lit((1 << SLICE_BITS) - 1).cast("bigint")
    return (F.shiftright(number, first).bitwiseAND(mask) for first in range(0, bits, SLICE_BITS))


def _same(column: Column, kind: DataType) -> Column:
    if isinstance(kind, DoubleType | FloatType):
        # Which of two zeros a least value is depends on the order of rows.
        return F.format_string(DIGITS, column.cast("double") + F.lit(0.0))
    return F.to_json(column, AS_JSON) if contains(kind, WITHOUT_ORDER) else column
