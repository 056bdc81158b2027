"""Times and days that Spark has and Python has not: a record with one is refused where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructField, StructType, TimestampType

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
    found = {field.name: _beyond(column(field.name), field.dataType) for field in fields}
    reasons = [
        F.when(beyond, F.lit(f"{name}: not in the years 1 to 9999 of UTC"))
        for name, beyond in found.items()
        if beyond is not None
    ]
    return F.coalesce(*reasons, F.lit(None).cast("string"))


def _beyond(value: Column, kind: DataType) -> Column | None:
    """Whether `value` has a time out of bounds, or null; None if no value of its type can have one."""
    bounds = BOUNDS.get(type(kind))
    if bounds is not None:
        return ~value.between(*(F.lit(bound).cast(kind) for bound in bounds))
    if isinstance(kind, StructType):
        return _any(_beyond(value[field.name], field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _within(value, kind.elementType)
    if isinstance(kind, MapType):
        return _any((_within(F.map_keys(value), kind.keyType), _within(F.map_values(value), kind.valueType)))
    return None


def _within(values: Column, kind: DataType) -> Column | None:
    return F.exists(values, lambda each: _beyond(each, kind)) if _beyond(values, kind) is not None else None


def _any(found: Iterable[Column | None]) -> Column | None:
    """Whether one of `found` holds; a null among them counts as no."""
    known = [F.coalesce(each, F.lit(col=False)) for each in found if each is not None]
    return reduce(or_, known) if known else None
