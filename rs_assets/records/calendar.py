"""Times and days that Spark has and Python has not: a record with one is refused where it is read."""

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

# The first and the last that Python has, of each type; as text, since Java takes old times of Python for Julian ones.
BOUNDS: Mapping[type[DataType], tuple[str, str]] = MappingProxyType(
    {
        TimestampType: ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
        DateType: ("0001-01-01", "9999-12-31"),
    }
)


def calendar_reason(fields: Iterable[StructField], column: Callable[[str], Column]) -> Column:
    """Why a record is refused whose times Python does not have; null for a good one.

    `column` gives the column of a field. Times within lists, maps and structs count too.
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
    """Whether values of `kind` are times, or hold some."""
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
    """Whether one of `found` holds; a null among them counts as no."""
    return reduce(or_, (F.coalesce(each, F.lit(col=False)) for each in found))
