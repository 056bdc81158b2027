"""Keys as bytes whose order is that of their values, so that ranges and prefixes are one scan.

A field is one byte for null (0) or a value (1), and then the value: whole numbers, dates and times as eight bytes with
the sign inverted, decimals as sixteen, floating numbers by the order of IEEE 754, text and bytes with an end mark that
sorts before every other byte. A key of several fields is their concatenation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

Column: TypeAlias = Any  # an Array or a ChunkedArray
NULL, VALUE = b"\x00", b"\x01"
# Greater than the first byte of every field.
AFTER = b"\xff"
SIGN_64, SIGN_128 = 1 << 63, 1 << 127
ZERO, END = b"\x00\xff", b"\x00\x00"


def encoded(columns: Sequence[Column]) -> list[bytes]:
    r"""The key of each row, given the columns of its fields; TypeError for a type without an order.

    >>> rows = pa.table({"id": [2, -1, None, 10], "text": ["b", "a\0", "", "b"]})
    >>> keys = encoded(rows.columns)
    >>> [rows["id"][place].as_py() for place in sorted(range(4), key=keys.__getitem__)]
    [None, -1, 2, 10]
    """
    fields = [_field(column) for column in columns]
    return fields[0] if len(fields) == 1 else [b"".join(parts) for parts in zip(*fields, strict=True)]


def text_begins(text: str | bytes) -> bytes:
    """The bytes with which all keys begin whose field begins with `text`."""
    raw = text.encode() if isinstance(text, str) else text
    return VALUE + raw.replace(b"\x00", ZERO)


def ordered(kind: pa.DataType) -> bool:
    """Whether a field of this type can be in a key."""
    return next((True for fits, _ in FORMS if fits(kind)), False)


def _field(column: Column) -> list[bytes]:
    form = next((form for fits, form in FORMS if fits(column.type)), None)
    if form is None:
        raise TypeError(f"{column.type} has no order")
    return form(column)


def _whole(column: Column) -> list[bytes]:
    pack = struct.Struct(">Q").pack
    values = column.cast(pa.int64()).to_pylist()
    return [NULL if value is None else VALUE + pack(value + SIGN_64) for value in values]


def _days(column: Column) -> list[bytes]:
    return _whole(column.cast(pa.int32()))


def _time(column: Column) -> list[bytes]:
    zone = column.type.tz if kinds.is_timestamp(column.type) else None
    if kinds.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=zone))
    elif kinds.is_duration(column.type):
        column = column.cast(pa.duration("us"))
    return _whole(column)


def _floating(column: Column) -> list[bytes]:
    pack, unpack, whole = struct.Struct(">d").pack, struct.Struct(">Q").unpack, struct.Struct(">Q").pack

    def bits(value: float) -> bytes:
        number = value + 0.0 if value == value else float("nan")  # noqa: PLR0124  NaN; -0.0 becomes 0.0
        (raw,) = unpack(pack(number))
        return whole(raw ^ (2 * SIGN_64 - 1) if raw & SIGN_64 else raw | SIGN_64)

    values = column.cast(pa.float64()).to_pylist()
    return [NULL if value is None else VALUE + bits(value) for value in values]


def _decimal(column: Column) -> list[bytes]:
    return [
        NULL if value is None else VALUE + (int(f"{value:f}".replace(".", "")) + SIGN_128).to_bytes(16, "big")
        for value in column.to_pylist()
    ]


def _text(column: Column) -> list[bytes]:
    raw = pc.cast(column, pa.large_binary()).to_pylist()
    return [NULL if value is None else VALUE + value.replace(b"\x00", ZERO) + END for value in raw]


def _is_text(kind: pa.DataType) -> bool:
    return any(fits(kind) for fits in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary))


def _is_time(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) or kinds.is_duration(kind))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kinds.is_boolean(kind) or kinds.is_integer(kind))


# How a type becomes bytes: the first that fits.
FORMS: tuple[tuple[Callable[[pa.DataType], Any], Callable[[Column], list[bytes]]], ...] = (
    (_is_whole, _whole),
    (_is_text, _text),
    (_is_time, _time),
    (kinds.is_date32, _days),
    (kinds.is_floating, _floating),
    (kinds.is_decimal128, _decimal),
)
