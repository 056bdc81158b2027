"""Changes of a table as rows: lines of JSON with its fields, the operation, and the place in the database's log."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

import orjson

from rs_assets.connectors.changes.landed import Line
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
    Values,
)
from rs_assets.connectors.postgres.table import Table
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import SourceReadError

# No longer text is a number of 64 bits.
DIGITS = 20
Convert = Callable[[str], object]


@dataclass(slots=True, kw_only=True)
class Changes:
    """Turns the messages of a slot into lines; `fields` are those that are read, with their types.

    `declared`: they are all that is wanted, so other columns are passed over. A transaction that ends before the
    position `since` has landed already.
    """

    table: Table
    fields: Mapping[str, str]
    step: str
    since: int = 0
    declared: bool = False
    on_truncate: OnTruncate = "fail"
    on_added: OnAdded = "fail"
    # The position after the last transaction.
    end: int = 0
    _lsn: int = 0
    _seq: int = 0
    _at: str = ""
    _places: list[tuple[str, int, Convert | None]] = field(default_factory=list)
    _keys: list[int] = field(default_factory=list)

    def lines(self, message: Message) -> list[Line]:
        """The rows of a message; SourceReadError for one that cannot be a row."""
        if isinstance(message, Begin):
            self._lsn, self._seq, self._at = message.lsn, 0, iso(message.at)
        elif isinstance(message, Commit):
            self.end = message.end
        elif isinstance(message, Relation):
            self._described(message)
        elif message is not None and self._lsn >= self.since:
            return [self._line(op, values) for op, values in self._rows(message)]
        return []

    def snapshot(self, values: Values, lsn: int, number: int, at: str) -> Line:
        """A row of the table as it was before the first change."""
        row = {name: _value(values[place], convert) for place, (name, convert) in enumerate(self._converters())}
        return lsn, orjson.dumps({**row, "op": "snapshot", "lsn": lsn, "seq": number, "commit_time": at})

    def _rows(self, message: Insert | Update | Delete | Truncate) -> list[tuple[str, Values]]:
        if isinstance(message, Truncate):
            return self._truncated() if self.table.id in message.relations else []
        if message.relation != self.table.id:
            return []
        if isinstance(message, Insert):
            return [("insert", message.new)]
        if isinstance(message, Delete):
            return [("delete", message.old)]
        old, new = message.old, self._filled(message)
        if old is not None and any(old[place] != new[place] for place in self._keys or range(len(new))):
            return [("delete", old), ("insert", new)]
        return [("update", new)]

    def _line(self, op: str, values: Values) -> Line:
        row = {name: _value(values[place], convert) for name, place, convert in self._places} if values else {}
        row |= {"op": op, "lsn": self._lsn, "seq": self._seq, "commit_time": self._at}
        self._seq += 1
        return self._lsn, orjson.dumps(row)

    def _filled(self, update: Update) -> Values:
        """The new row, with large values that were not changed from the old one, of which the log may have the key."""
        old, new = update.old, update.new
        if UNCHANGED not in new:
            return new
        had = range(len(new)) if update.whole else self._keys
        filled = [old[at] if value is UNCHANGED and old and at in had else value for at, value in enumerate(new)]
        lacking = next((name for name, place, _ in self._places if filled[place] is UNCHANGED), None)
        if lacking is not None:
            raise self._refused(
                f"an update has not logged the column {lacking!r}, whose large value it left as it was",
                f"ALTER TABLE {self.table.quoted} REPLICA IDENTITY FULL, then {BEGIN_ANEW}",
            )
        return filled

    def _truncated(self) -> list[tuple[str, Values]]:
        if self.on_truncate != "fail":
            return [("truncate", [])]
        raise self._refused(
            f"the table {self.table.quoted} was emptied by TRUNCATE, which logs no rows",
            f"truncate='row' gives a row with op = 'truncate'; or {BEGIN_ANEW}, which begins with the table as it is",
        )

    def _described(self, relation: Relation) -> None:
        if relation.id != self.table.id:
            return
        at = {name: place for place, name in enumerate(relation.columns)}
        gone = next((name for name in self.fields if name not in at), None)
        if gone is not None and self._lsn >= self.since:
            raise self._refused(
                f"the table {self.table.quoted} has lost its column {gone!r}",
                f"{BEGIN_ANEW}, without that column: changes from now on do not have it",
            )
        added = next((name for name in relation.columns if name not in self.fields), None)
        if added is not None and not self.declared and self.on_added == "fail" and self._lsn >= self.since:
            raise self._refused(
                f"the table {self.table.quoted} has a new column {added!r}",
                f"{BEGIN_ANEW}, which reads it; or go on without it: added_columns='ignore'",
            )
        self._places = [(name, at[name], convert) for name, convert in self._converters() if name in at]
        self._keys = [at[name] for name in self.table.keys if name in at]

    def _converters(self) -> list[tuple[str, Convert | None]]:
        return [(name, converter(kind)) for name, kind in self.fields.items()]

    def _refused(self, what: str, remedy: str) -> SourceReadError:
        return SourceReadError(what, remedy=remedy, step=self.step)


def iso(at: datetime) -> str:
    """A moment for Spark's parser."""
    return at.replace(tzinfo=None).isoformat() + "Z"


def converter(kind: str) -> Convert | None:
    r"""What makes a value for JSON of the text of a value, for a field of the type `kind`; None if the text will do.

    >>> [converter(kind)(text) for kind, text in [("int", "7"), ("double", "1.5"), ("double", "NaN"), ("boolean", "t")]]
    [7, 1.5, 'NaN', True]
    >>> converter("timestamp")("2024-03-01 12:00:00.5+00"), converter("binary")(r"\xff")
    ('2024-03-01T12:00:00.5Z', '/w==')
    """
    return _BY_KIND.get(kind)


def _value(text: bytes | None, convert: Convert | None) -> object:
    if text is None or text is UNCHANGED:
        return None
    decoded = text.decode()
    return decoded if convert is None else convert(decoded)


def _whole(text: str) -> object:
    # What is not a number of 64 bits stays a text, which the parser refuses as a bad record.
    number = int(text) if len(text) <= DIGITS and text.lstrip("-").isdigit() else None
    return text if number is None or abs(number) >= 1 << 63 else number


def _real(text: str) -> object:
    try:
        found = float(text)
    except ValueError:
        return text
    return found if abs(found) < float("inf") else text


def _truth(text: str) -> object:
    return {"t": True, "f": False}.get(text, text)


def _bytes(text: str) -> object:
    raw = bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
    return base64.b64encode(raw).decode()


def _day(text: str) -> object:
    # Spark ignores what follows a blank: the year 44 BC would be 44. Without the blank it is a bad record.
    return text.replace(" ", "")


def _moment(text: str) -> object:
    return text.replace(" ", "T", 1).removesuffix("+00") + ("Z" if text.endswith("+00") else "")


_BY_KIND: Final[Mapping[str, Convert]] = MappingProxyType(
    dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole)
    | dict.fromkeys(("float", "double"), _real)
    | dict.fromkeys(("timestamp", "timestamp_ntz"), _moment)
    | {"boolean": _truth, "binary": _bytes, "date": _day}
)
