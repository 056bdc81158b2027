"""Changes of a table as rows: lines of JSON with its fields, the operation, and the place in the binary log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import orjson

from rs_assets.connectors.changes.landed import Line
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.mariadb import binlog
from rs_assets.connectors.mariadb.binlog import Event, Read, Statement, TableMap
from rs_assets.connectors.mariadb.server import ANEW, listed, lost, lsn_of, number_of
from rs_assets.connectors.mariadb.statements import effect_of, point_of
from rs_assets.connectors.mariadb.table import Column, Table
from rs_assets.connectors.mariadb.values import Finish, finish, from_text, reader, skipper
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import SourceReadError

ENDS: Final = ("COMMIT", "ROLLBACK")
# Places in a file of the log have 32 bits, and begin again after a transaction that is larger: by so much less.
WRAPPED: Final = 1 << 31


@dataclass(slots=True)
class Form:
    """How the rows of a table are read: of each field its place and what makes its value, and the places of the key."""

    id: int
    read: list[Read]
    # Reads the key, and passes over other values.
    skim: list[Read]
    places: list[tuple[str, int, Finish | None]]
    keys: list[int]


@dataclass(slots=True, kw_only=True)
class Changes:
    """Turns the events of the log into lines, a transaction at a time; `fields` are those that are read, with types.

    `table` is as it was when its rows began to land. `declared`: the fields are all that is wanted, so other columns
    are passed over. `latest` is the greatest time of a commit: the times of rows never go back.
    """

    table: Table
    fields: Mapping[str, str]
    step: str
    file: int
    declared: bool = False
    on_truncate: OnTruncate = "fail"
    on_added: OnAdded = "fail"
    latest: str = ""
    # The place after the last transaction.
    end: int = 0
    # Whether the file goes on after 4 GiB, where a place has no number: `end` stays until the next file.
    beyond: bool = False
    _seen: int = 0
    _form: Form | None = None
    _inside: bool = False
    _lsn: int = 0
    _at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    _rows: list[bytes] = field(default_factory=list)
    _points: dict[str, int] = field(default_factory=dict)

    def lines(self, event: Event) -> list[Line]:
        """The rows of the transaction that ends with the event; SourceReadError for a change that cannot be a row."""
        kind = event.kind
        self._place(event)
        if kind == binlog.ROTATE:
            name, position = binlog.rotated(event)
            self.file, self._seen, self.beyond = number_of(name), 0, False
            if not event.flags & binlog.ARTIFICIAL:
                self.end = lsn_of(name, position)
        elif kind == binlog.GTID:
            self._inside, self._at = not binlog.is_standalone(event), event.at
            self._lsn = (self.file << 32) + event.end if not self.beyond else -1
        elif kind == binlog.TABLE_MAP:
            self._described(binlog.table_of(event))
        elif kind in binlog.ROWS:
            self._changed(event)
        elif kind in (binlog.QUERY, binlog.QUERY_COMPRESSED):
            return self._executed(binlog.statement_of(event), event)
        elif kind == binlog.XID:
            return self._committed(event)
        else:
            self._other(event)
        return []

    def snapshot(self, rows: Iterable[tuple[str | bytes | None, ...]], lsn: int, at: str) -> Iterator[Line]:
        """The rows of the table as it was before the first change, as the server writes them."""
        known = {column.name: column for column in self.table.columns}
        how = [(name, from_text(known[name]), finish(known[name], kind)) for name, kind in self.fields.items()]
        for number, row in enumerate(rows):
            made: dict[str, object] = {"op": "snapshot", "lsn": lsn, "seq": number, "commit_time": at}
            for (name, parse, last), text in zip(how, row, strict=True):
                value = None if text is None else parse(text)
                made[name] = value if value is None or last is None else last(value)
            yield lsn, orjson.dumps(made)

    def _other(self, event: Event) -> None:
        if event.kind == binlog.INCIDENT:
            raise lost("the server has noted a gap in its log")
        if event.kind == binlog.XA_PREPARE:
            if self._rows:
                raise self._refused("an XA transaction has changed the table, which may still be rolled back")
            self._inside = False
        self._reach(event)

    def _place(self, event: Event) -> None:
        if event.end and not event.flags & binlog.ARTIFICIAL:
            self.beyond |= self._seen - event.end > WRAPPED
            self._seen = event.end

    def _reach(self, event: Event) -> None:
        if not self._inside and not self.beyond and event.end and not event.flags & binlog.ARTIFICIAL:
            self.end = (self.file << 32) + event.end

    def _executed(self, statement: Statement, event: Event) -> list[Line]:
        words = [word.upper() for word in statement.sql.split(maxsplit=2)[:2]]
        verb = words[0] if words else ""
        if verb == "ROLLBACK" and len(words) > 1:
            del self._rows[self._points.get(point_of(statement.sql), 0) :]
        elif verb == "SAVEPOINT":
            self._points[point_of(statement.sql)] = len(self._rows)
        elif verb in ENDS:
            if verb == "ROLLBACK":
                self._rows.clear()
            return self._committed(event)
        elif verb not in ("BEGIN", "XA"):
            self._affected(statement)
            if not self._inside:
                return self._committed(event)
        elif verb == "XA" and words[1:2] != ["END"]:
            # XA END comes before XA_PREPARE, when no one knows yet whether the rows stay.
            return self._committed(event)
        return []

    def _affected(self, statement: Statement) -> None:
        of = (self.table.schema, self.table.name)
        effect = effect_of(statement.sql, statement.database, of=of, fields=self.fields)
        if effect == "truncate" and self.on_truncate == "row":
            self._add("truncate", None)
        elif effect == "truncate":
            raise self._refused(
                f"the table {self.table.quoted} was emptied by TRUNCATE, which logs no rows",
                f"truncate='row' gives a row with op = 'truncate'; or {ANEW}",
            )
        elif effect == "unlogged":
            said = " ".join(statement.sql.split())[:100]
            raise self._refused(f"the table {self.table.quoted} was changed by a statement that logs no rows: {said}")

    def _committed(self, event: Event) -> list[Line]:
        rows, lsn = self._rows, self._lsn
        self._rows, self._inside = [], False
        self._points.clear()
        self._reach(event)
        if rows:
            # A statement may have begun before another one that committed first, as it waited for its rows.
            self.latest = max(self.latest, iso(min(self._at, datetime.now(UTC))))
        lead, end = b',"lsn":%d,"seq":' % lsn, b',"commit_time":"%b"}' % self.latest.encode()
        return [(lsn, b"%b%b%d%b" % (row, lead, seq, end)) for seq, row in enumerate(rows)]

    def _changed(self, event: Event) -> None:
        form = self._form
        packed = binlog.rows_of(event)
        if form is None or packed.table != form.id:
            return
        self._check_whole(packed, form)
        if event.kind in binlog.UPDATE:
            for old, new in binlog.updated(packed, form.read, form.skim, form.keys):
                if old is not None:
                    self._add("delete", old)
                self._add("update" if old is None else "insert", new)
        else:
            op = "insert" if event.kind in binlog.WRITE else "delete"
            for values in binlog.unpacked(packed, form.read):
                self._add(op, values)

    def _add(self, op: str, values: list[object] | None) -> None:
        if self._lsn < 0:
            raise self._refused(
                f"a change of the table {self.table.quoted} follows a transaction of more than 4 GiB in one file of the"
                " log, where places have no number"
            )
        row: dict[str, object] = {"op": op}
        if values is not None and self._form is not None:
            for name, place, last in self._form.places:
                value = values[place]
                row[name] = value if value is None or last is None else last(value)
        # Without its last bracket: where the transaction is, and its time, follow. It may have more rows than memory
        # has room for as values.
        self._rows.append(orjson.dumps(row)[:-1])

    def _check_whole(self, packed: binlog.Rows, form: Form) -> None:
        """SourceReadError if an image of a row lacks a field: a session had another binlog_row_image."""
        for has in packed.present:
            for name, place, _ in form.places:
                if not has[place >> 3] >> (place & 7) & 1:
                    raise self._refused(f"a change of the table {self.table.quoted} has not logged the column {name!r}")

    def _described(self, described: TableMap) -> None:
        if (described.database, described.table) != (self.table.schema, self.table.name):
            if self._form is not None and self._form.id == described.id:
                self._form = None
            return
        if not described.names:
            raise self._refused(
                f"the log does not have the names of the columns of {self.table.quoted}",
                f"SET GLOBAL binlog_row_metadata = 'FULL'; then {ANEW}",
            )
        self._check_fields(described)
        at = {name: place for place, name in enumerate(described.names)}
        known = {column.name: column for column in self.table.columns}
        read: list[Read] = []
        for kind, metadata, name in _columns(described):
            how = reader(kind, metadata, known[name] if name in self.fields else Column(name, "", ""))
            if how is None:
                raise self._refused(
                    f"the log packs the column {name!r} of {self.table.quoted} in a way that is not read here",
                    f"ALTER TABLE {self.table.quoted} FORCE makes a table of the current form; then {ANEW}",
                )
            read.append(how)
        places = [(name, at[name], finish(known[name], kind)) for name, kind in self.fields.items()]
        keys = [at[name] for name in described.keys] or [*range(len(described.names))]
        skim = [
            how if place in keys else skipper(kind, metadata, how)
            for place, ((kind, metadata, _), how) in enumerate(zip(_columns(described), read, strict=True))
        ]
        self._form = Form(described.id, read, skim, places, keys)

    def _check_fields(self, described: TableMap) -> None:
        gone = next((name for name in self.fields if name not in described.names), None)
        if gone is not None:
            raise self._refused(f"the table {self.table.quoted} has lost its column {gone!r}")
        added = next((name for name in described.names if name not in self.fields), None)
        if added is not None and not self.declared and self.on_added == "fail":
            raise self._refused(
                f"the table {self.table.quoted} has a new column {added!r}",
                f"{BEGIN_ANEW}, which reads it; or go on without it: added_columns='ignore'",
            )
        if described.keys != self.table.keys:
            raise self._refused(
                f"the key of the table {self.table.quoted} was {listed(self.table.keys)} and is"
                f" {listed(described.keys)}"
            )

    def _refused(self, what: str, remedy: str = ANEW) -> SourceReadError:
        return SourceReadError(what, remedy=remedy, step=self.step)


def _columns(described: TableMap) -> Iterator[tuple[int, bytes, str]]:
    return zip(described.types, described.metadata, described.names, strict=True)


def iso(at: datetime) -> str:
    """A moment for Spark's parser."""
    return at.replace(tzinfo=None, microsecond=0).isoformat() + "Z"
