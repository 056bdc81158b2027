"""Values of MariaDB for JSON: as the log packs them, and as the server writes them for a query."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from rs_assets.connectors.mariadb.binlog import Read
from rs_assets.connectors.mariadb.charsets import CODECS, decoded
from rs_assets.connectors.mariadb.table import Column

Finish = Callable[[Any], object]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUTH: Final[Mapping[Any, bool]] = {0: False, 1: True, b"\0": False, b"\1": True}
# Numbers of two digits.
TWO: Final = tuple(f"{number:02}" for number in range(64))
# Digits that are packed together, and how many bytes fewer digits take.
NINE, PACKED = 9, (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def reader(kind: int, metadata: bytes, column: Column) -> Read | None:
    """What reads a packed value of the type `kind`; None for a type that is not known here."""
    if kind == 254 and metadata[0] & 0x30 == 0x30:
        kind = metadata[0]
    make = _READERS.get(kind)
    return make(metadata, column) if make is not None else None


def skipper(kind: int, metadata: bytes, read: Read) -> Read:
    """What passes over a value that `read` would read: of most types faster than that."""
    if kind in _SIZES:
        size = _SIZES[kind] + ((metadata[0] + 1) // 2 if kind in _FRACTIONS else 0)
        return lambda _, at: (None, at + size)
    if kind == _VARCHAR and int.from_bytes(metadata, "little") <= 255:
        return lambda data, at: (None, at + 1 + data[at])
    if kind == _VARCHAR:
        return lambda data, at: (None, at + 2 + data[at] + (data[at + 1] << 8))
    return read


def finish(column: Column, field: str) -> Finish | None:
    """What makes a value for JSON of one that was read, for a field of the type `field`; None if it is one."""
    if field == "boolean":
        return _truth
    if column.kind == "binary" or isinstance(column.bits, int):
        return lambda value: base64.b64encode(value).decode()
    return str if field == "string" and column.kind != "string" else None


def _truth(value: Any) -> object:
    # Another number stays a text, which the parser refuses as a bad record.
    found = _TRUTH.get(value)
    return str(value) if found is None else found


def from_text(column: Column) -> Finish:
    """What makes of the server's text what `reader` makes of the packed value."""
    if column.bits:
        return bytes
    return _TEXTS.get(column.type, _as_it_is)


def _as_it_is(value: object) -> object:
    return value


def _moment(value: str) -> str:
    return value.replace(" ", "T")


def _utc(value: str) -> str:
    return _moment(value) + "Z"


_TEXTS: Final[Mapping[str, Finish]] = MappingProxyType(
    dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), int)
    | dict.fromkeys(("float", "double"), float)
    | {"datetime": _moment, "timestamp": _utc}
)


def _whole(size: int) -> Callable[[bytes, Column], Read]:
    def make(metadata: bytes, column: Column) -> Read:
        signed = not column.unsigned
        if size in _FORMS:
            return _fixed("<" + (_FORMS[size] if signed else _FORMS[size].upper()))(metadata, column)

        def read(data: bytes, at: int) -> tuple[int, int]:
            return int.from_bytes(data[at : at + size], "little", signed=signed), at + size

        return read

    return make


def _fixed(form: str) -> Callable[[bytes, Column], Read]:
    packed = struct.Struct(form)
    unpack, size = packed.unpack_from, packed.size

    def make(_: bytes, __: Column) -> Read:
        return lambda data, at: (unpack(data, at)[0], at + size)

    return make


def _sized(metadata: bytes, column: Column) -> Read:
    """Text or bytes after their length: VARCHAR by the greatest one, CHAR by another form of it, BLOB by its bytes."""
    size = metadata[0] if len(metadata) == 1 else 2 if int.from_bytes(metadata, "little") > 255 else 1
    return _text(size, column)


def _char(metadata: bytes, column: Column) -> Read:
    longest = metadata[1] | ((metadata[0] & 0x30) ^ 0x30) << 4
    return _text(2 if longest > 255 else 1, column)


def _text(size: int, column: Column) -> Read:
    charset = column.charset
    fill = column.length if column.type == "binary" else 0
    if size == 1 and charset is not None and CODECS[charset] == "utf-8":
        return _short_text

    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        value = data[start:end]
        return (value.ljust(fill, b"\0") if charset is None else decoded(value, charset)), end

    return read


def _short_text(data: bytes, at: int) -> tuple[str, int]:
    """Text of up to 255 bytes in the character set that most have."""
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end


def _year(_: bytes, __: Column) -> Read:
    return lambda data, at: (1900 + data[at] if data[at] else 0, at + 1)


def _date(_: bytes, __: Column) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(data[at : at + 3], "little")
        return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}", at + 3

    return read


def _fraction(data: bytes, at: int, places: int) -> tuple[str, int]:
    """A fraction of seconds as text with its point, none for whole seconds."""
    size = (places + 1) // 2
    if not size:
        return "", at
    packed = int.from_bytes(data[at : at + size], "big") * 10 ** (6 - 2 * size)
    return f".{packed:06}"[: places + 1], at + size


@lru_cache(maxsize=1 << 12)
def _calendar(day: int) -> str:
    """The date of a DATETIME."""
    month = day >> 5
    return f"{month // 13:04}-{month % 13:02}-{day & 31:02}"


def _datetime(metadata: bytes, _: Column) -> Read:
    places = metadata[0]

    def read(data: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        clock = packed & 0x1FFFF
        fraction, end = _fraction(data, at + 5, places) if places else ("", at + 5)
        date = _calendar(packed >> 17)
        return f"{date}T{TWO[clock >> 12]}:{TWO[clock >> 6 & 63]}:{TWO[clock & 63]}{fraction}", end

    return read


def _timestamp(metadata: bytes, _: Column) -> Read:
    places = metadata[0]

    def read(data: bytes, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction, end = _fraction(data, at + 4, places)
        if not seconds and not fraction.strip(".0"):
            return f"0000-00-00T00:00:00{fraction}Z", end
        return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z", end

    return read


def _time(metadata: bytes, _: Column) -> Read:
    places, size = metadata[0], (metadata[0] + 1) // 2

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + 3 + size
        packed = int.from_bytes(data[at:end], "big") - (0x800000 << 8 * size)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        clock, rest = packed >> 8 * size, packed & (1 << 8 * size) - 1
        fraction = f".{rest * 10 ** (6 - 2 * size):06}"[: places + 1] if places else ""
        return f"{sign}{clock >> 12 & 0x3FF:02}:{clock >> 6 & 63:02}:{clock & 63:02}{fraction}", end

    return read


def _decimal(metadata: bytes, _: Column) -> Read:
    digits, scale = metadata
    whole, part = divmod(digits - scale, NINE), divmod(scale, NINE)
    sizes = [(PACKED[whole[1]], whole[1]), *[(4, NINE)] * whole[0]]
    fractions = [*[(4, NINE)] * part[0], (PACKED[part[1]], part[1])]
    size = sum(each for each, _ in (*sizes, *fractions))

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + size
        packed = bytearray(data[at:end])
        negative = not packed[0] & 0x80
        packed[0] ^= 0x80
        if negative:
            packed = bytearray(byte ^ 0xFF for byte in packed)
        place, texts = 0, []
        for length, width in (*sizes, *fractions):
            texts.append(f"{int.from_bytes(packed[place : place + length], 'big'):0{width}}" if length else "")
            place += length
        before, after = "".join(texts[: len(sizes)]).lstrip("0") or "0", "".join(texts[len(sizes) :])
        return ("-" if negative else "") + before + (f".{after}" if after else ""), end

    return read


def _bits(metadata: bytes, _: Column) -> Read:
    size = metadata[1] + (metadata[0] > 0)
    return lambda data, at: (data[at : at + size], at + size)


def _enum(metadata: bytes, column: Column) -> Read:
    size, names = metadata[1], ("", *column.names)

    def read(data: bytes, at: int) -> tuple[str, int]:
        number = int.from_bytes(data[at : at + size], "little")
        return names[number] if number < len(names) else "", at + size

    return read


def _set(metadata: bytes, column: Column) -> Read:
    size = metadata[1]

    def read(data: bytes, at: int) -> tuple[str, int]:
        chosen = int.from_bytes(data[at : at + size], "little")
        return ",".join(name for bit, name in enumerate(column.names) if chosen >> bit & 1), at + size

    return read


# Numbers by how many bytes they have, for `struct`.
_FORMS: Final[Mapping[int, str]] = MappingProxyType({1: "b", 2: "h", 4: "i", 8: "q"})
# How many bytes a type has, without those of a fraction.
_SIZES: Final[Mapping[int, int]] = MappingProxyType(
    {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 3, 10: 3, 13: 1, 14: 3, 17: 4, 18: 5, 19: 3}
)
_FRACTIONS: Final = frozenset({17, 18, 19})
_VARCHAR: Final = 15
# By the type's number in the log.
_READERS: Final[Mapping[int, Callable[[bytes, Column], Read]]] = MappingProxyType(
    {
        1: _whole(1), 2: _whole(2), 3: _whole(4), 8: _whole(8), 9: _whole(3), 4: _fixed("<f"), 5: _fixed("<d"),
        10: _date, 13: _year, 14: _date, 15: _sized, 16: _bits, 17: _timestamp, 18: _datetime, 19: _time,
        246: _decimal, 247: _enum, 248: _set, 249: _sized, 250: _sized, 251: _sized, 252: _sized, 253: _sized,
        254: _char,
    }
)  # fmt: skip
