"""The source of a Postgres table: its rows, then its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql.types import StructType

from rs_assets.connectors.changes.landed import landed_lost
from rs_assets.connectors.changes.reader import TableReader
from rs_assets.connectors.changes.reading import check_one_query, landed_of, struct_of
from rs_assets.connectors.postgres.landing import Landing
from rs_assets.connectors.postgres.server import Server
from rs_assets.connectors.postgres.slot import Slot, check_logical, flushed
from rs_assets.connectors.postgres.table import table_of
from rs_assets.connectors.source import Known, Lag, Start, sealed_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesReader(TableReader):
    """Exactly once: what the slot gives is on disk before it is confirmed, and each batch is read from there."""

    server: Server
    slot: Slot

    def check(self, start: Start) -> Known:
        """One query may read it; what has landed must be there, and the slot must have what follows."""
        check_one_query(start, self.name)
        with self.server.connected() as connection:
            check_logical(connection, step=self.name)
            table = table_of(connection, self.table, step=self.name)
            for log in start.logs:
                landed, read = landed_of(log)
                parts = landed.parts(read)
                if read and not (parts and parts[0].first <= read <= parts[-1].end):
                    raise landed_lost(landed.folder, read)
                if landed.reached() is not None:
                    self.slot.check(connection, landed, table)
                    self.slot.publish(connection, table, make=False)
                if start.sealed and (landed.end() > read or self.slot.has_changes(connection, landed)):
                    raise sealed_error(self.name)
        return start.known

    def lag(self, offset: str | None, patience: timedelta) -> Lag:  # noqa: ARG002  rows on disk are as good as read
        """The bytes of the database's log that have not landed."""
        with self.server.connected(patience_s=max(2, int(patience.total_seconds()))) as connection:
            confirmed = self.slot.confirmed(connection)
            return Lag(bytes=0 if confirmed is None else max(0, flushed(connection) - confirmed))

    def landing(self, fields: Mapping[str, str]) -> Landing:
        """By the slot."""
        return Landing(server=self.server.revealed(), slot=self.slot, fields=fields, **self.landed_by)

    def inferred(self) -> StructType:
        """The fields of the table as it is."""
        with self.server.connected() as connection:
            table = table_of(connection, self.table, step=self.name)
        return struct_of(table.fields(), table=table.quoted, step=self.name)
