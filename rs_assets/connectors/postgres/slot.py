"""The replication slot of a source, and its publication: made, looked at, advanced, refused when they are lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.changes.landed import Landed, Owner
from rs_assets.connectors.database.place import quoted_name
from rs_assets.connectors.postgres.pgoutput import lsn_of, lsn_text
from rs_assets.connectors.postgres.pinned import facts_of
from rs_assets.connectors.postgres.table import Table
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import ConfigurationError, DataLossError, SourceReadError

if TYPE_CHECKING:
    from psycopg import Connection

PLUGIN: Final = "pgoutput"
ANEW: Final = f"{BEGIN_ANEW}, which makes a slot and begins with the table as it is then"
# Row filters and lists of columns came with Postgres 15, so they are looked for in the row as JSON.
_PUBLICATION: Final = """SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, t.tablename IS NOT NULL,
 to_jsonb(t) ->> 'rowfilter' IS NULL, to_jsonb(t) -> 'attnames', concat_ws('/', p.oid, (
 SELECT r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %s::bigint::oid))
 FROM pg_publication p LEFT JOIN LATERAL (SELECT * FROM pg_publication_tables t
 WHERE t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = %s) t ON true WHERE p.pubname = %s"""
_ANY: Final = """SELECT 1 FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',
 'publication_names', %s) WHERE chr(get_byte(data, 0)) IN ('I', 'U', 'D', 'T') LIMIT 1"""
_SLOT: Final = """SELECT plugin::text, database::text, confirmed_flush_lsn::text, wal_status FROM pg_replication_slots
 WHERE slot_name = %s"""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot and a publication by their names, for the step `step`."""

    name: str
    publication: str
    step: str

    def owner(self, connection: Connection[Any], table: Table, publication: str | None = None) -> Owner:
        """This slot of this server, for a table; with the facts of table and publication, if that is given."""
        system = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
        facts = None if publication is None else facts_of(table, publication)
        return Owner(self.name, system[0] if system else "", table.id, facts)

    def confirmed(self, connection: Connection[Any]) -> int | None:
        """The position up to which the slot was confirmed; None if there is no such slot.

        ConfigurationError if it is another kind of slot, DataLossError if the server has dropped its log.
        """
        found = connection.execute(_SLOT, (self.name,)).fetchone()
        if found is None:
            return None
        plugin, database, confirmed, status = found
        here = connection.info.dbname
        if plugin != PLUGIN or database != here:
            raise ConfigurationError(
                f"the replication slot {self.name!r} is of the plugin {plugin} in the database {database!r}",
                remedy="name another slot: slot='...'",
                step=self.step,
            )
        if status == "lost" or confirmed is None:
            raise self._lost("the server has removed the log that it still had to give (max_slot_wal_keep_size)")
        return lsn_of(confirmed)

    def check(self, connection: Connection[Any], landed: Landed, table: Table) -> int:
        """The confirmed position; DataLossError if changes after what has landed cannot be had from the slot."""
        reached, owner = landed.reached() or 0, landed.owner()
        now = self.owner(connection, table)
        if owner is not None and owner.system != now.system:
            raise self._lost("it was that of another server, whose log has other positions")
        if owner is not None and owner.table != now.table:
            raise self._lost(f"it was that of another table that was called {table.quoted}")
        confirmed = self.confirmed(connection)
        if confirmed is None:
            raise self._lost("it does not exist any more")
        if confirmed > reached:
            raise self._lost(
                f"it was advanced to {lsn_text(confirmed)}, and changes have landed up to {lsn_text(reached)}"
            )
        if flushed(connection) < reached:
            raise self._lost("the database was put back to an earlier state")
        return confirmed

    def advance(self, connection: Connection[Any], lsn: int) -> None:
        """Let the server forget what lies before `lsn`."""
        connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.name, lsn_text(lsn)))

    def has_changes(self, connection: Connection[Any], landed: Landed) -> bool:
        """Whether there are changes that have not landed."""
        self.advance(connection, max(landed.reached() or 0, self.confirmed(connection) or 0))
        return connection.execute(_ANY, (self.name, quoted_name(self.publication))).fetchone() is not None

    def drop(self, connection: Connection[Any]) -> None:
        """Drop the slot, if it exists."""
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (self.name,)
        )

    def publish(self, connection: Connection[Any], table: Table, *, make: bool, fields: Iterable[str] = ()) -> str:
        """See that the publication has all changes of the `fields`; it is made if it does not exist, and `make`.

        The numbers that the server has given to the publication and to its entry for the table.
        """
        values = (table.id, table.schema, table.name, self.publication)
        found = connection.execute(_PUBLICATION, values).fetchone()
        if found is None and make:
            name = quoted_name(self.publication)
            connection.execute(f"CREATE PUBLICATION {name} FOR TABLE {table.quoted}".encode())
            found = connection.execute(_PUBLICATION, values).fetchone()
        if found is None:
            what = f"the publication {self.publication!r} does not exist any more: what changed meanwhile is lost"
            raise DataLossError(what, remedy=ANEW, step=self.step)
        *kept, columns, entry = found
        read = {*fields} & {column.name for column in table.columns}
        problem = self._leaves_out(table, (*kept, columns is None or read <= {*columns}))
        if problem is not None:
            then = "" if make else f", then {BEGIN_ANEW}: changes of the time without it are lost"
            raise SourceReadError(
                f"the publication {self.publication!r} {problem[0]}", remedy=f"{problem[1]}{then}", step=self.step
            )
        return str(entry)

    def _leaves_out(self, table: Table, kept: Sequence[bool]) -> tuple[str, str] | None:
        """What the publication leaves out of a table's changes, and the statement that helps."""
        kinds, has, rows, columns = kept
        alter = f"ALTER PUBLICATION {quoted_name(self.publication)}"
        add, again = f"{alter} ADD TABLE {table.quoted}", f"{alter} DROP TABLE {table.quoted}; "
        every = f"{alter} SET (publish = 'insert, update, delete, truncate')"
        problems: tuple[tuple[bool, str, str], ...] = (
            (not has, f"does not have the table {table.quoted}", add),
            (not kinds, "leaves out some kinds of changes", every),
            (not rows, f"leaves out rows of the table {table.quoted}", again + add),
            (not columns, f"leaves out columns of the table {table.quoted} that are read", again + add),
        )
        return next(((what, remedy) for holds, what, remedy in problems if holds), None)

    @contextmanager
    def alone(self, connection: Connection[Any]) -> Iterator[None]:
        """No other session of the server lands changes of this slot within the block.

        That of a process that was killed ends a little after it, and holds the slot until then.
        """
        lock = (f"rs_assets slot {self.name}",)
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", lock)
        try:
            yield
        finally:
            if not connection.closed and not connection.broken:
                # In a transaction that has failed the server would only say so, in place of the cause.
                connection.rollback()
                connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", lock)

    def taken(self) -> ConfigurationError:
        """The error for a slot that this pipeline has not made."""
        return ConfigurationError(
            f"there is a replication slot {self.name!r} already, which this pipeline has not made",
            remedy=f"name another one, slot='...'; or read from where it is: snapshot=False; or, if it is unused,"
            f" SELECT pg_drop_replication_slot('{self.name}')",
            step=self.step,
        )

    def _lost(self, why: str) -> DataLossError:
        return DataLossError(
            f"changes are lost with the replication slot {self.name!r}: {why}", remedy=ANEW, step=self.step
        )


def flushed(connection: Connection[Any]) -> int:
    """The end of the server's log."""
    found = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    return lsn_of(found[0]) if found else 0


def check_logical(connection: Connection[Any], *, step: str) -> None:
    """ConfigurationError if the server does not log what a slot needs."""
    found = connection.execute("SHOW wal_level").fetchone()
    if found is None or found[0] != "logical":
        raise ConfigurationError(
            f"the server of step {step!r} does not log changes for readers: its wal_level is {found and found[0]}",
            remedy="ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            step=step,
        )
