"""Values that Spark can represent and Python cannot: records with one are refused when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rs_assets.records.columns import REASON
from rs_assets.records.contained import contains
from rs_assets.records.schema import quoted

# The first and the last value in Python, by type; as text, since Java reads Python's early times as Julian dates.
BOUNDS: Mapping[type[DataType], tuple[str, str]] = MappingProxyType(
    {
        TimestampType: ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
        TimestampNTZType: ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
        DateType: ("0001-01-01", "9999-12-31"),
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a value of one of `kinds` for which `holds` is true, within any lists, maps and structs."""

    what: str
    kinds: tuple[type[DataType], ...]
    holds: Callable[[Column, DataType], Column]


def _beyond(value: Column, kind: DataType) -> Column:
    return ~value.between(*(F.lit(bound).cast(kind) for bound in BOUNDS[type(kind)]))


def _twice(value: Column, _kind: DataType) -> Column:
    return F.size(F.array_distinct(F.map_keys(value))) < F.size(value)


FAULTS: Final = (
    Fault("not in the years 1 to 9999 of UTC", tuple(BOUNDS), _beyond),
    Fault("a key is twice in a map", (MapType,), _twice),
)


# Of values that come as bytes; the readers of texts look at the whole text.
NO_UTF8: Final = Fault("invalid UTF-8", (StringType,), lambda value, _: ~F.is_valid_utf8(value))


def calendar_reason(fields: Iterable[StructField], column: Callable[[str], Column]) -> Column:
    """The reason to refuse a record with a value that Python does not have; null for a good record.

    `column` gives the column of a field.
    """
    return fault_reason(fields, column, FAULTS)


def fault_reason(fields: Iterable[StructField], column: Callable[[str], Column], faults: Iterable[Fault]) -> Column:
    """The first field with one of the `faults`, and what is wrong; null for a record without one."""
    faults = tuple(faults)
    reasons = [
        F.when(_has(column(field.name), field.dataType, fault), F.lit(f"{field.name}: {fault.what}"))
        for field in fields
        for fault in faults
        if contains(field.dataType, fault.kinds)
    ]
    return F.coalesce(*reasons, F.lit(None).cast("string"))


def judged(rows: DataFrame, schema: StructType, address: Mapping[str, Column] = MappingProxyType({})) -> DataFrame:
    """The fields of `schema`, the REASON of each row by its times and texts, and its `address`."""
    fields = [F.col(quoted(name)) for name in schema.names]
    reason = fault_reason(schema.fields, lambda name: F.col(quoted(name)), (*FAULTS, NO_UTF8)).alias(REASON)
    return rows.select(*fields, reason, *(column.alias(name) for name, column in address.items()))


def _has(value: Column, kind: DataType, fault: Fault) -> Column:
    """Whether a `value` of a kind that may have a fault has it; null counts as false."""
    found = [fault.holds(value, kind)] if type(kind) in fault.kinds else []
    if isinstance(kind, StructType):
        parts = [field for field in kind.fields if contains(field.dataType, fault.kinds)]
        found += [_has(value[field.name], field.dataType, fault) for field in parts]
    if isinstance(kind, MapType):
        sides = ((F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType))
        found += [_within(values, of, fault) for values, of in sides if contains(of, fault.kinds)]
    if isinstance(kind, ArrayType):
        found.append(_within(value, kind.elementType, fault))
    return reduce(or_, (F.coalesce(each, F.lit(col=False)) for each in found))


def _within(values: Column, kind: DataType, fault: Fault) -> Column:
    return F.exists(values, lambda each: _has(each, kind, fault))
