"""Rows of a store as JSON, and back: each value has its type again, decimals, times and bytes too."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.connectors.store.keys import Column

Convert = Callable[[Any], Any]
Row = dict[str, Any]
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a store's rows and its keys.

    >>> layout = Layout(pa.schema({"id": pa.int64(), "sum": pa.decimal128(9, 2)}), ("id",))
    >>> rows = pa.table({"id": [1], "sum": [Decimal("1.50")]}, schema=layout.schema)
    >>> layout.stored(rows)
    [b'{"id":1,"sum":"1.50"}']
    >>> layout.row(layout.stored(rows)[0])
    {'id': 1, 'sum': Decimal('1.50')}
    """

    schema: pa.Schema
    keys: tuple[str, ...]

    @property
    def key_fields(self) -> pa.Schema:
        """The fields of a key, in its order."""
        return pa.schema([self.schema.field(name) for name in self.keys])

    def text(self) -> str:
        """The layout as text, for `layout_of`."""
        schema = base64.b64encode(self.schema.remove_metadata().serialize()).decode()
        return orjson.dumps({"schema": schema, "keys": self.keys}).decode()

    def stored(self, rows: pa.Table) -> list[bytes]:
        """Each row as JSON."""
        columns = [_plain(rows[field.name], field.type) for field in self.schema]
        names = self.schema.names
        return [orjson.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def row(self, stored: bytes) -> Row:
        """The row of a JSON text; fields that a row had no value for when it was written are null."""
        found = orjson.loads(stored)
        return {
            field.name: _restored(field.type)(found.get(field.name)) if field.name in found else None
            for field in self.schema
        }


@lru_cache(maxsize=256)
def layout_of(text: str) -> Layout:
    """The layout that `Layout.text` has written."""
    found = orjson.loads(text)
    return Layout(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"]))), tuple(found["keys"]))


def shown(value: Any) -> Any:
    """A value of a row for JSON: decimals, times, bytes in hexadecimal, and numbers without a value as text."""
    if isinstance(value, Mapping):
        return {str(name): shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value


def _plain(column: Column, kind: pa.DataType) -> list[Any]:
    convert = _writes(kind)
    values: list[Any] = column.to_pylist()
    return values if convert is _same else [convert(value) for value in values]


def _same(value: Any) -> Any:
    return value


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _utc(value: datetime) -> str:
    return (value.astimezone(UTC) if value.tzinfo is not None else value).isoformat()


# By the kind of a type: to JSON, and from there. The first that fits.
CONVERSIONS: tuple[tuple[Callable[[pa.DataType], Any], Convert, Convert], ...] = (
    (kinds.is_floating, lambda value: value if math.isfinite(value) else repr(value), float),
    (kinds.is_decimal, str, Decimal),
    (kinds.is_timestamp, _utc, datetime.fromisoformat),
    (kinds.is_date, date.isoformat, date.fromisoformat),
    (kinds.is_duration, lambda value: value // MICROSECOND, lambda value: timedelta(microseconds=value)),
    (lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind), bytes.hex, bytes.fromhex),
)


@lru_cache(maxsize=1024)
def _writes(kind: pa.DataType) -> Convert:
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        inner = _writes(kind.value_type)
        return _unless_null(lambda values: [inner(value) for value in values])
    if kinds.is_struct(kind):
        fields = {field.name: _writes(field.type) for field in kind}
        return _unless_null(lambda row: {name: convert(row[name]) for name, convert in fields.items()})
    if kinds.is_map(kind):
        key, item = _writes(kind.key_type), _writes(kind.item_type)
        return _unless_null(lambda pairs: [[key(name), item(value)] for name, value in pairs])
    return next((_unless_null(there) for fits, there, _ in CONVERSIONS if fits(kind)), _same)


@lru_cache(maxsize=1024)
def _restored(kind: pa.DataType) -> Convert:
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        inner = _restored(kind.value_type)
        return _unless_null(lambda values: [inner(value) for value in values])
    if kinds.is_struct(kind):
        fields = {field.name: _restored(field.type) for field in kind}
        return _unless_null(lambda row: {name: convert(row.get(name)) for name, convert in fields.items()})
    if kinds.is_map(kind):
        key, item = _restored(kind.key_type), _restored(kind.item_type)
        return _unless_null(lambda pairs: {key(name): item(value) for name, value in pairs})
    return next((_unless_null(back) for fits, _, back in CONVERSIONS if fits(kind)), _same)
