"""Python values of Arrow types: those that a column has, and those that it would give back for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.records.ddl import arrow_schema
from rs_assets.records.rows import to_arrays

Exact = Callable[[Any], Any]
ZONE: Final = ZoneInfo("UTC")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=ZONE)
ZONES: Final = (ZONE, UTC)


def values_of(array: pa.Array) -> list[Any]:
    """The values of a column: maps are dicts (of equal keys the last counts), times are aware and in UTC."""
    kind = array.type
    if kinds.is_timestamp(kind) and kind.unit == "us" and kind.tz == "UTC":
        # Several times as fast as pyarrow's own conversion.
        micros = array.cast(pa.int64()).to_pylist()
        return [None if n is None else EPOCH + timedelta(microseconds=n) for n in micros]
    values: list[Any] = array.to_pylist(maps_as_pydicts="lossy") if _maps_are_dicts(kind) else array.to_pylist()
    return values


@cache
def converters(ddl: str) -> Mapping[str, Exact] | None:
    """For each field of a schema what gives a value its type, as state gives it back; MisfitError if it does not fit.

    None for a schema that only Spark can read.

    >>> made = converters("at timestamp, tags array<string>, weight float")
    >>> made["at"](datetime(2026, 1, 5, 10)).isoformat(), made["tags"](("a", "b")), made["weight"](0.1)
    ('2026-01-05T10:00:00+00:00', ['a', 'b'], 0.10000000149011612)
    """
    schema = arrow_schema(ddl)
    return None if schema is None else converters_of(schema)


def converters_of(schema: pa.Schema) -> Mapping[str, Exact]:
    """The same for a schema of Arrow."""
    return MappingProxyType({field.name: _settled(field) for field in schema})


def same(one: Any, other: Any) -> bool:
    """Whether two values of one type are equal; all NaN are.

    >>> same({"n": [float("nan"), 1]}, {"n": [float("nan"), 1]}), same([1], [1, 2])
    (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124  NaN is not equal to itself


class _UnusualError(Exception):
    """A value of another Python type than a column has, or one that may not fit."""


def _settled(field: pa.Field) -> Exact:
    """Usual values are copied in Python, which is several times as fast; Arrow converts, or refuses, the others."""
    exact, schema = _or_null(field), pa.schema([field])

    def settle(value: Any) -> Any:
        try:
            return exact(value)
        except _UnusualError:
            return values_of(to_arrays([{field.name: value}], schema)[0])[0]

    return settle


def _or_null(field: pa.Field) -> Exact:
    exact = _exact(field.type)

    def settle(value: Any) -> Any:
        if value is not None:
            return exact(value)
        if field.nullable:
            return None
        raise _UnusualError

    return settle


def _exact(kind: pa.DataType) -> Exact:
    """A function that copies a value of a type, and raises _UnusualError for one that it does not know."""
    if kinds.is_list(kind):
        return _list_of(_or_null(kind.value_field))
    if kinds.is_struct(kind):
        return _struct_of({field.name: _or_null(field) for field in kind})
    if kinds.is_map(kind):
        return _map_of(_exact(kind.key_type), _or_null(kind.item_field))
    usual = next((usual(kind) for is_kind, usual in USUAL if is_kind(kind)), None)

    def settle(value: Any) -> Any:
        if usual is not None and usual(value):
            return value
        raise _UnusualError

    return settle


def _list_of(inner: Exact) -> Exact:
    def settle(value: Any) -> Any:
        if type(value) is list:
            return list(map(inner, value))
        raise _UnusualError

    return settle


def _struct_of(fields: Mapping[str, Exact]) -> Exact:
    def settle(value: Any) -> Any:
        if type(value) is dict and fields.keys() >= value.keys():
            return {name: inner(value.get(name)) for name, inner in fields.items()}
        raise _UnusualError

    return settle


def _map_of(key: Exact, item: Exact) -> Exact:
    def settle(value: Any) -> Any:
        if type(value) is dict:
            return {key(name): item(each) for name, each in value.items()}
        raise _UnusualError

    return settle


def _of(kind: type) -> Callable[[pa.DataType], Callable[[Any], bool]]:
    return lambda _: lambda value: type(value) is kind


def _text(_: pa.DataType) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and (value.isascii() or _can_be_sent(value))


def _can_be_sent(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(kind: pa.DataType) -> Callable[[Any], bool]:
    most = 2 ** (kind.bit_width - 1)
    return lambda value: type(value) is int and -most <= value < most


def _moment(kind: pa.DataType) -> Callable[[Any], bool]:
    if kind.tz is None:
        return lambda value: type(value) is datetime and value.tzinfo is None
    return lambda value: type(value) is datetime and value.tzinfo in ZONES


def _decimal(kind: pa.DataType) -> Callable[[Any], bool]:
    whole, scale = kind.precision - kind.scale, kind.scale

    def usual(value: Any) -> bool:
        return type(value) is Decimal and value.as_tuple().exponent == -scale and value.adjusted() < whole

    return usual


# Which values of a type are as a column gives them back. None of a float, which has fewer digits than Python's.
USUAL: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Callable[[Any], bool]]], ...]] = (
    (kinds.is_signed_integer, _whole),
    (kinds.is_float64, _of(float)),
    (kinds.is_string, _text),
    (kinds.is_boolean, _of(bool)),
    (kinds.is_binary, _of(bytes)),
    (kinds.is_date, _of(date)),
    (kinds.is_timestamp, _moment),
    (kinds.is_decimal128, _decimal),
)


def _maps_are_dicts(kind: pa.DataType) -> bool:
    """Whether there are maps in `kind`, all of whose keys are hashable."""
    maps = list(_maps(kind))
    return bool(maps) and not any(kinds.is_nested(each.key_type) for each in maps)


def _maps(kind: pa.DataType) -> Iterator[pa.MapType]:
    if kinds.is_map(kind):
        yield kind
        yield from _maps(kind.item_type)
    elif kinds.is_nested(kind):
        for number in range(kind.num_fields):
            yield from _maps(kind.field(number).type)
