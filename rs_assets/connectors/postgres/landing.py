"""Lands the rows of a table, then its changes: everything that a slot gives comes to disk before it is confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.changes.landed import CHUNK, Landed, add
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.database.place import quoted_name
from rs_assets.connectors.postgres.changes import Changes, iso
from rs_assets.connectors.postgres.pgoutput import lsn_of, lsn_text
from rs_assets.connectors.postgres.pinned import check_pinned
from rs_assets.connectors.postgres.server import Server, pages_of, rows_of
from rs_assets.connectors.postgres.slot import PLUGIN, Slot, check_logical, flushed
from rs_assets.connectors.postgres.table import Table, table_of
from rs_assets.errors import SourceReadError

if TYPE_CHECKING:
    from psycopg import Connection

# A quiet table's slot is advanced once the log of other tables has grown so far: a file of Postgres' log.
QUIET: Final = 16 << 20
_CHANGES: Final = """SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s,
 'proto_version', '1', 'publication_names', %s)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Brings one table's rows and changes into folders of `Landed`; it holds no connection.

    `fields` are those that are read, with their types; `declared`: all that are wanted.
    """

    server: Server
    table: str
    slot: Slot
    fields: Mapping[str, str]
    declared: bool
    snapshot: bool
    on_truncate: OnTruncate
    on_added: OnAdded
    rows: int | None

    def flushed(self) -> int:
        """The end of the server's log."""
        with self.server.connected() as connection:
            return flushed(connection)

    def land(self, landed: Landed, split: str, until: int | None) -> None:
        """Land the table as it is if nothing has landed, else changes up to the position `until` (None: now)."""
        with self.server.connected() as connection, self.slot.alone(connection):
            table = table_of(connection, self.table, step=self.slot.step)
            table.check(self.fields if landed.owner() is None else (), step=self.slot.step)
            if landed.reached() is None:
                self._begin(connection, table, landed, split)
            else:
                self._go_on(connection, table, landed, split, until)

    def _begin(self, connection: Connection[Any], table: Table, landed: Landed, split: str) -> None:
        """Make the slot, and land the table as it was at that moment."""
        check_logical(connection, step=self.slot.step)
        publication = self.slot.publish(connection, table, make=True, fields=self.fields)
        confirmed = self.slot.confirmed(connection)
        owner = self.slot.owner(connection, table, publication)
        if confirmed is not None and not self.snapshot:
            landed.own(owner)
            landed.note_reached(confirmed)
            return
        if confirmed is not None and not is_own(landed, self.slot.name, owner.system):
            raise self.slot.taken()
        landed.own(owner)
        # That of a former generation, or of a process that ended before the rows had landed.
        self.slot.drop(connection)
        # Before the slot is there: no change is earlier, which would end by the older row in a history.
        at = _now(connection)
        with self.server.connected(replication=True) as exporting:
            made = exporting.execute(
                f"CREATE_REPLICATION_SLOT {quoted_name(self.slot.name)} LOGICAL {PLUGIN}"
                f" (SNAPSHOT '{'export' if self.snapshot else 'nothing'}')".encode()
            ).fetchone()
            assert made is not None  # the server's answer
            lsn = lsn_of(made[1])
            self._check_same(connection, table)
            if self.snapshot:
                self._copy(connection, table, landed, split, lsn=lsn, snapshot=made[2], at=at)
        if landed.reached() is None:
            landed.note_reached(lsn)

    def _check_same(self, connection: Connection[Any], table: Table) -> None:
        """SourceReadError if the table was altered while the slot was made, which waits for open transactions."""
        if table_of(connection, self.table, step=self.slot.step) != table:
            raise SourceReadError(
                f"the table {table.quoted} was altered while its replication slot was made",
                remedy="start again",
                step=self.slot.step,
            )

    def _copy(
        self, connection: Connection[Any], table: Table, landed: Landed, split: str, *, lsn: int, snapshot: str, at: str
    ) -> None:
        columns = ", ".join(map(quoted_name, self.fields))
        with landed.landing() as part:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
            changes = self._changes(table)
            sql = f"SELECT {columns} FROM {table.quoted}"  # noqa: S608  quoted names
            found = enumerate(rows_of(connection, sql, size=CHUNK))
            add(part, split, (changes.snapshot([*row], lsn, number, at) for number, row in found))
            connection.execute("COMMIT")
            part.publish(lsn, snapshot=True)

    def _go_on(self, connection: Connection[Any], table: Table, landed: Landed, split: str, until: int | None) -> None:
        """Land what was committed after the last landed transaction, then confirm it."""
        confirmed = self.slot.check(connection, landed, table)
        publication = self.slot.publish(connection, table, make=False, fields=self.fields)
        check_pinned(landed.owner(), table, publication, fields=self.fields, step=self.slot.step)
        reached = landed.reached() or 0
        if confirmed < reached:
            self.slot.advance(connection, reached)
        now = flushed(connection)
        until = now if until is None else min(now, until)
        if until <= reached:
            return
        changes, count = self._changes(table, since=reached), 0

        values = (self.slot.name, lsn_text(until), self.rows, quoted_name(self.slot.publication))
        with landed.landing() as part:
            connection.execute("BEGIN")
            for messages in pages_of(connection, _CHANGES, *values, size=CHUNK):
                count += len(messages)
                part.add_block(split, changes.block(messages))
            connection.execute("COMMIT")
            whole = self.rows is None or count < self.rows
            end = max(changes.end, until) if whole else changes.end
            if part.end > part.first:
                part.publish(end)
            elif end - reached >= QUIET or not whole:
                landed.note_reached(end)
        self.slot.advance(connection, landed.reached() or reached)

    def _changes(self, table: Table, since: int = 0) -> Changes:
        return Changes(
            table=table,
            fields=self.fields,
            step=self.slot.step,
            since=since,
            declared=self.declared,
            on_truncate=self.on_truncate,
            on_added=self.on_added,
        )


def _now(connection: Connection[Any]) -> str:
    """The time of the server, for a row."""
    now = connection.execute("SELECT clock_timestamp()").fetchone()
    assert now is not None  # the server's answer
    return iso(now[0].astimezone(UTC))


def is_own(landed: Landed, slot: str, system: str) -> bool:
    """Whether this generation, or a former one, has made the slot."""
    owners = (Landed(folder).owner() for folder in landed.folder.parent.glob("*"))
    return any(owner is not None and (owner.slot, owner.system) == (slot, system) for owner in owners)
