"""Dates and times that Spark can represent and Python cannot: records with one are refused when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructField, StructType, TimestampType

from rs_assets.records.columns import REASON
from rs_assets.records.schema import quoted

# The first and the last value in Python, by type; as text, since Java reads Python's early times as Julian dates.
BOUNDS: Mapping[type[DataType], tuple[str, str]] = MappingProxyType(
    {
        TimestampType: ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
        DateType: ("0001-01-01", "9999-12-31"),
    }
)


def calendar_reason(fields: Iterable[StructField], column: Callable[[str], Column]) -> Column:
    """The reason to refuse a record with times outside Python's range; null for a good record.

    `column` gives the column of a field. Times within lists, maps and structs are checked too.
    """
    reasons = [
        F.when(_beyond(column(field.name), field.dataType), F.lit(f"{field.name}: not in the years 1 to 9999 of UTC"))
        for field in fields
        if _dated(field.dataType)
    ]
    return F.coalesce(*reasons, F.lit(None).cast("string"))


def judged(rows: DataFrame, schema: StructType, address: Mapping[str, Column] = MappingProxyType({})) -> DataFrame:
    """The fields of `schema`, the REASON of each row by its times, and its `address`."""
    fields = [F.col(quoted(name)) for name in schema.names]
    reason = calendar_reason(schema.fields, lambda name: F.col(quoted(name))).alias(REASON)
    return rows.select(*fields, reason, *(column.alias(name) for name, column in address.items()))


def _dated(kind: DataType) -> bool:
    """Whether values of `kind` are times or contain times."""
    if isinstance(kind, StructType):
        return any(_dated(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _dated(kind.keyType) or _dated(kind.valueType)
    return _dated(kind.elementType) if isinstance(kind, ArrayType) else type(kind) in BOUNDS


def _beyond(value: Column, kind: DataType) -> Column:
    """Whether a `value` of a dated kind is out of bounds, or null."""
    if isinstance(kind, StructType):
        return _any(_beyond(value[field.name], field.dataType) for field in kind.fields if _dated(field.dataType))
    if isinstance(kind, MapType):
        sides = ((F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType))
        return _any(_within(values, of) for values, of in sides if _dated(of))
    if isinstance(kind, ArrayType):
        return _within(value, kind.elementType)
    return ~value.between(*(F.lit(bound).cast(kind) for bound in BOUNDS[type(kind)]))


def _within(values: Column, kind: DataType) -> Column:
    return F.exists(values, lambda each: _beyond(each, kind))


def _any(found: Iterable[Column]) -> Column:
    """Whether any of `found` is true; null counts as false."""
    return reduce(or_, (F.coalesce(each, F.lit(col=False)) for each in found))
