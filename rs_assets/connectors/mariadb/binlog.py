"""The events of MariaDB's binary log, as the server sends them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

# The codes of the events that matter.
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, XA_PREPARE, GTID = 2, 4, 15, 16, 19, 26, 38, 162
QUERY_COMPRESSED: Final = 165
WRITE, UPDATE, DELETE = ({23, 30, 166, 169}, {24, 31, 167, 170}, {25, 32, 168, 171})
ROWS: Final = frozenset(WRITE | UPDATE | DELETE)
# Versions of rows that have a further header, and those that are compressed.
LONG_ROWS, COMPRESSED_ROWS = frozenset({30, 31, 32, 169, 170, 171}), frozenset(range(166, 172))
HEADER: Final = 19
# An event that the server makes for this reader has no place in the log.
ARTIFICIAL: Final = 0x20
# A transaction of one event, which no commit ends.
STANDALONE: Final = 1
NAMES, KEYS, PREFIXES = 4, 8, 9

_HEADER = struct.Struct("<IBIIIH").unpack_from


# Reads a value at a place; the place after it.
Read = Callable[[bytes, int], tuple[Any, int]]


class Event(NamedTuple):
    """An event; `end` is the position after it in its file, 0 for one that has none."""

    kind: int
    time: int
    end: int
    flags: int
    body: bytes

    @property
    def at(self) -> datetime:
        """When the server executed the statement, to the second."""
        return datetime.fromtimestamp(self.time, UTC)


class Statement(NamedTuple):
    """A statement as text, and the database in which it was executed."""

    database: str
    sql: str


class TableMap(NamedTuple):
    """What a table looked like for the rows that follow; no names if the server does not log them."""

    id: int
    database: str
    table: str
    types: bytes
    metadata: tuple[bytes, ...]
    names: tuple[str, ...]
    keys: tuple[str, ...]


class Rows(NamedTuple):
    """The rows of one event, still packed: for each image, which columns it has."""

    table: int
    present: tuple[bytes, ...]
    data: bytes
    columns: int

    def places(self, image: int) -> list[int]:
        """The columns that an image has."""
        has = self.present[image]
        return [place for place in range(self.columns) if has[place >> 3] >> (place & 7) & 1]


def unsummed(data: bytes) -> bytes | None:
    """The bytes of an event without its checksum; None if it has none that fits."""
    return data[:-4] if zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little") else None


def has_sums(description: bytes) -> bool:
    """Whether the events after this description of the format have checksums."""
    return description[-5] == 1


def event_of(data: bytes) -> Event:
    """An event of its bytes, without a checksum."""
    time, kind, _, _, end, flags = _HEADER(data)
    return Event(kind, time, end, flags, data[HEADER:])


def rotated(event: Event) -> tuple[str, int]:
    """The file with the next events, and the position there."""
    return event.body[8:].split(b"\0")[0].decode(), int.from_bytes(event.body[:8], "little")


def is_standalone(event: Event) -> bool:
    """Whether a transaction has one event that no commit follows."""
    return bool(event.body[12] & STANDALONE)


def statement_of(event: Event) -> Statement:
    """The statement of an event."""
    body = event.body
    name, variables = body[8], int.from_bytes(body[11:13], "little")
    at = 13 + variables
    text = body[at + name + 1 :]
    if event.kind == QUERY_COMPRESSED:
        text = _inflated(text)
    return Statement(body[at : at + name].decode(errors="replace"), text.decode(errors="replace"))


def table_of(event: Event) -> TableMap:
    """The table of the rows that follow."""
    body = event.body
    database, at = _name(body, 8)
    table, at = _name(body, at)
    count, at = _number(body, at)
    types, at = body[at : at + count], at + count
    size, at = _number(body, at)
    metadata = _split(types, body[at : at + size])
    at += size + (count + 7) // 8
    names: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    while at < len(body):
        kind, (size, start) = body[at], _number(body, at + 1)
        value, at = body[start : start + size], start + size
        if kind == NAMES:
            names = tuple(_names(value))
        elif kind in (KEYS, PREFIXES):
            keys = tuple(_numbers(value))[:: 1 if kind == KEYS else 2]
    named = tuple(names[place] for place in keys) if names else ()
    return TableMap(int.from_bytes(body[:6], "little"), database, table, types, metadata, names, named)


def rows_of(event: Event) -> Rows:
    """The packed rows of an event."""
    body, at = event.body, 8
    if event.kind in LONG_ROWS:
        at += int.from_bytes(body[8:10], "little")
    count, at = _number(body, at)
    width = (count + 7) // 8
    images = 2 if event.kind in UPDATE else 1
    present = tuple(body[at + n * width : at + (n + 1) * width] for n in range(images))
    data = body[at + images * width :]
    if event.kind in COMPRESSED_ROWS:
        data = _inflated(data)
    return Rows(int.from_bytes(body[:6], "little"), present, data, count)


def unpacked(rows: Rows, read: Sequence[Read]) -> Iterator[list[object]]:
    """The rows of an event that adds or removes them; null for a column that an image does not have."""
    places, at = rows.places(0), 0
    while at < len(rows.data):
        values, at = _image(rows, at, places, read)
        yield values


def updated(
    rows: Rows, read: Sequence[Read], skim: Sequence[Read], keys: Sequence[int]
) -> Iterator[tuple[list[object] | None, list[object]]]:
    """The rows of an event that changes them, before and after; None before if the values at `keys` are the same.

    `skim` reads these alone, and passes over others.
    """
    before, after, at = rows.places(0), rows.places(1), 0
    while at < len(rows.data):
        start = at
        old, at = _image(rows, at, before, skim)
        new, at = _image(rows, at, after, read)
        same = all(old[place] == new[place] for place in keys)
        yield None if same else _image(rows, start, before, read)[0], new


def _image(rows: Rows, at: int, places: Sequence[int], read: Sequence[Read]) -> tuple[list[object], int]:
    """The values of one image, and where the next one begins."""
    data, nulls = rows.data, at
    values: list[object] = [None] * rows.columns
    at += (len(places) + 7) // 8
    # Bits of no column are set.
    if not int.from_bytes(data[nulls:at], "little") & (1 << len(places)) - 1:
        for place in places:
            values[place], at = read[place](data, at)
        return values, at
    for bit, place in enumerate(places):
        if not data[nulls + (bit >> 3)] >> (bit & 7) & 1:
            values[place], at = read[place](data, at)
    return values, at


def _inflated(data: bytes) -> bytes:
    """What a server with log_bin_compress has packed."""
    return zlib.decompress(data[1 + (data[0] & 7) :])


def _name(body: bytes, at: int) -> tuple[str, int]:
    size = body[at]
    return body[at + 1 : at + 1 + size].decode(), at + size + 2


def _number(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def _numbers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = _number(data, at)
        yield number


def _names(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        size, at = _number(data, at)
        yield data[at : at + size].decode()
        at += size


# How many bytes of metadata a type has; others have none.
_METADATA: Final = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 140: 1, 141: 2, 246: 2, 247: 2, 248: 2} | {
    249: 1, 250: 1, 251: 1, 252: 1, 253: 2, 254: 2, 255: 1,
}  # fmt: skip


def _split(types: bytes, metadata: bytes) -> tuple[bytes, ...]:
    found, at = [], 0
    for kind in types:
        size = _METADATA.get(kind, 0)
        found.append(metadata[at : at + size])
        at += size
    return tuple(found)
