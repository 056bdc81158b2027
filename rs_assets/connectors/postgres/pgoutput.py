"""The messages of Postgres' output plugin pgoutput, protocol version 1, as the server writes them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

# The epoch of Postgres.
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
# The value of a large column that an update has not changed, and that the log therefore does not have.
UNCHANGED: Final = b"\0unchanged"
# The text of each column, null, or UNCHANGED.
Values = list[bytes | None]

# What a value is, and that a new row follows.
TEXT, NO_VALUE, NEW = b"tnN"

# Numbers of tables have no sign: those of a server that has made many are above 2^31.
_LONG, _INT, _SHORT = (struct.Struct(f"!{code}").unpack_from for code in "qIh")


class Begin(NamedTuple):
    """A transaction that was committed by the record at `lsn`; its changes follow."""

    lsn: int
    at: datetime


class Commit(NamedTuple):
    """The end of a transaction; the next one begins at `end`."""

    end: int


class Relation(NamedTuple):
    """What a table looked like for the changes that follow."""

    id: int
    schema: str
    name: str
    columns: tuple[str, ...]


class Insert(NamedTuple):
    """A row that was added."""

    relation: int
    new: Values


class Update(NamedTuple):
    """A row that was changed; `old` is None if neither its key changed nor the log has whole old rows.

    `whole`: `old` has all values of the row; else it has those of its key, and null for the others.
    """

    relation: int
    old: Values | None
    new: Values
    whole: bool = False


class Delete(NamedTuple):
    """A row that was removed: its key, or all of it if the log has whole old rows."""

    relation: int
    old: Values


class Truncate(NamedTuple):
    """Tables that were emptied."""

    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | None


def message_of(data: bytes) -> Message:
    r"""A message; None for kinds that carry no rows.

    >>> message_of(b"C\0" + bytes(8) + (77).to_bytes(8, "big") + bytes(8))
    Commit(end=77)
    """
    read = _READ.get(data[:1])
    return read(data) if read is not None else None


def lsn_text(lsn: int) -> str:
    """A position in the log as Postgres writes it.

    >>> lsn_text(0x16B374D848), lsn_of("16/B374D848") == 0x16B374D848
    ('16/B374D848', True)
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """A position in the log as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def _begin(data: bytes) -> Begin:
    return Begin(_LONG(data, 1)[0], EPOCH + timedelta(microseconds=_LONG(data, 9)[0]))


def _commit(data: bytes) -> Commit:
    return Commit(_LONG(data, 10)[0])


def _relation(data: bytes) -> Relation:
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    columns, count, at = [], _SHORT(data, at + 1)[0], at + 3
    for _ in range(count):
        column, at = _text(data, at + 1)
        columns.append(column)
        at += 8
    return Relation(_INT(data, 1)[0], schema, name, tuple(columns))


def _insert(data: bytes) -> Insert:
    return Insert(_INT(data, 1)[0], _values(data, 6)[0])


def _update(data: bytes) -> Update:
    old, at = None, 5
    if data[5:6] in (b"K", b"O"):
        old, at = _values(data, 6)
    return Update(_INT(data, 1)[0], old, _values(data, at + 1)[0], data[5:6] == b"O")


def _delete(data: bytes) -> Delete:
    return Delete(_INT(data, 1)[0], _values(data, 6)[0])


def _truncate(data: bytes) -> Truncate:
    return Truncate(tuple(_INT(data, 6 + 4 * place)[0] for place in range(_INT(data, 1)[0])))


_READ: Final[Mapping[bytes, Callable[[bytes], Message]]] = MappingProxyType(
    {b"B": _begin, b"C": _commit, b"R": _relation, b"I": _insert, b"U": _update, b"D": _delete, b"T": _truncate}
)


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _values(data: bytes, at: int) -> tuple[Values, int]:
    values: Values = []
    count, at = _SHORT(data, at)[0], at + 2
    for _ in range(count):
        kind, at = data[at], at + 1
        if kind == TEXT:
            size = _INT(data, at)[0]
            at += 4
            values.append(data[at : at + size])
            at += size
        else:
            values.append(None if kind == NO_VALUE else UNCHANGED)
    return values, at
