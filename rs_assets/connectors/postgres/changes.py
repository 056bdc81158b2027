"""Changes of a table as rows: lines of JSON with its fields, the operation, and the place in the database's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
from orjson import dumps

from rs_assets.connectors.changes.landed import Block, Line
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.postgres.blocks import (
    Head,
    Heads,
    Page,
    PlainRows,
    encoded,
    joined,
)
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
    message_of,
)
from rs_assets.connectors.postgres.table import Table
from rs_assets.connectors.postgres.values import NULL, Encode, encoder
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import SourceReadError

# The first byte of a message that describes a table.
RELATION: Final = ord("R")
NO_HEAD: Final = Head(b"", b"", b"")


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
    _head: Head = NO_HEAD
    # Of each field its name, its place in a row, what its JSON begins with, and what makes the JSON of its value.
    _places: list[tuple[str, int, bytes, Encode]] = field(default_factory=list)
    # Of each column of a row what its JSON begins with, and the type of its field; None for one that is not read.
    _columns: list[tuple[bytes, str] | None] = field(default_factory=list)
    _keys: list[int] = field(default_factory=list)

    def block(self, messages: Sequence[bytes]) -> Block:
        """The rows of messages, in their order; SourceReadError for one that cannot be a row."""
        page, parts, begin = Page.of(messages), [], 0
        for at in page.find(RELATION):
            parts += [self._segment(page, messages, begin, at), self._segment(page, messages, at, at + 1)]
            begin = at + 1
        parts.append(self._segment(page, messages, begin, len(messages)))
        return Block(*(pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)))

    def _segment(self, page: Page, messages: Sequence[bytes], begin: int, end: int) -> Block:
        """The rows of messages none of which describes the table, or one that does."""
        found = page.part(begin, end).rows(self.table.id, [column is not None for column in self._columns])
        count = int(found.plain.sum())
        heads = Heads()
        others: list[bytes] = []
        places: list[int] = []
        lsns: list[int] = []
        after = 0
        for at in [*np.flatnonzero(~found.plain).tolist(), end - begin]:
            # The rows since the message before, all of one transaction, and then this message.
            run, after = at - after, at + 1
            heads.add(self._head, self._seq, run)
            if self._lsn >= self.since:
                places += range(len(heads.seqs) - run, len(heads.seqs))
                lsns += [self._lsn] * run
                self._seq += run
            for lsn, line in self._of(message_of(messages[begin + at])) if at < end - begin else ():
                places.append(count + len(others))
                lsns.append(lsn)
                others.append(line)
        lines = pa.array(others, pa.binary())
        if count:
            lines = pa.concat_arrays([self._joined(heads, found), lines])
        if len(places) < len(lines) or others:
            lines = lines.take(pa.array(places, pa.int64()))
        return Block(pa.array(lsns, pa.int64()), lines)

    def _joined(self, heads: Heads, found: PlainRows) -> pa.BinaryArray:
        """Lines of JSON of rows by their columns: by far the most, so no value of them becomes one of Python."""
        parts: list[pa.BinaryArray | bytes] = heads.parts(found.updates)
        for (begin, kind), column in zip(filter(None, self._columns), found.columns, strict=True):
            parts += [begin, encoded(kind, column)]
        return joined(*parts, b"}")

    def _of(self, message: Message) -> list[Line]:
        if isinstance(message, Begin):
            self._begun(message)
        elif isinstance(message, Commit):
            self.end = message.end
        elif isinstance(message, Relation):
            self._described(message)
        elif message is not None and self._lsn >= self.since:
            return [self._line(op, self._read(values)) for op, values in self._rows(message)]
        return []

    def _begun(self, begin: Begin) -> None:
        self._lsn, self._seq, self._at = begin.lsn, 0, iso(begin.at)
        self._head = Head(_head("insert", begin.lsn), _head("update", begin.lsn), _tail(self._at))

    def snapshot(self, values: Values, lsn: int, number: int, at: str) -> Line:
        """A row of the table as it was before the first change."""
        read = b"".join(
            begin + (NULL if value is None else encode(value))
            for (_, begin, encode), value in zip(self._encoders(), values, strict=True)
        )
        return lsn, _line("snapshot", lsn, number, at, read)

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

    def _line(self, op: str, read: bytes) -> Line:
        made = _line(op, self._lsn, self._seq, self._at, read)
        self._seq += 1
        return self._lsn, made

    def _read(self, values: Values) -> bytes:
        """The fields of a row as a part of an object in JSON; nothing of a TRUNCATE."""
        if not values:
            return b""
        found = ((begin, values[place], encode) for _, place, begin, encode in self._places)
        return b"".join(
            begin + (NULL if value is None or value is UNCHANGED else encode(value)) for begin, value, encode in found
        )

    def _filled(self, update: Update) -> Values:
        """The new row, with large values that were not changed from the old one, of which the log may have the key."""
        old, new = update.old, update.new
        if UNCHANGED not in new:
            return new
        had = range(len(new)) if update.whole else self._keys
        filled = [old[at] if value is UNCHANGED and old and at in had else value for at, value in enumerate(new)]
        lacking = next((name for name, place, *_ in self._places if filled[place] is UNCHANGED), None)
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
        self._places = [(name, at[name], begin, encode) for name, begin, encode in self._encoders() if name in at]
        by_place = {place: (begin, self.fields[name]) for name, place, begin, _ in self._places}
        self._columns = [by_place.get(place) for place in range(len(relation.columns))]
        self._keys = [at[name] for name in self.table.keys if name in at]

    def _encoders(self) -> list[tuple[str, bytes, Encode]]:
        return [(name, b",%b:" % dumps(name), encoder(kind)) for name, kind in self.fields.items()]

    def _refused(self, what: str, remedy: str) -> SourceReadError:
        return SourceReadError(what, remedy=remedy, step=self.step)


def iso(at: datetime) -> str:
    """A moment for Spark's parser."""
    return at.replace(tzinfo=None).isoformat() + "Z"


def _line(op: str, lsn: int, seq: int, at: str, read: bytes) -> bytes:
    """A row as an object in JSON; `read` are its fields, each after a comma."""
    return b"%b%d%b%b}" % (_head(op, lsn), seq, _tail(at), read)


def _head(op: str, lsn: int) -> bytes:
    return b'{"op":"%b","lsn":%d,"seq":' % (op.encode(), lsn)


def _tail(at: str) -> bytes:
    return b',"commit_time":"%b"' % at.encode()
