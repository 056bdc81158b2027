"""The source of a Postgres table: its rows, then its changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql.types import StructType

from rs_assets.connectors.changes.landed import landed_lost
from rs_assets.connectors.changes.nodes import CHANGE_TYPES, OnAdded, OnTruncate
from rs_assets.connectors.changes.plan import ChangesPlan
from rs_assets.connectors.changes.reading import check_one_query, folder_of, landed_of, struct_of, with_changes
from rs_assets.connectors.own.reader import NumberedReader
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.postgres.landing import Landing
from rs_assets.connectors.postgres.server import Server
from rs_assets.connectors.postgres.slot import Slot, check_logical, flushed
from rs_assets.connectors.postgres.table import table_of
from rs_assets.connectors.source import Known, Lag, Reading, Start, sealed_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesReader(NumberedReader):
    """Exactly once: what the slot gives is on disk before it is confirmed, and each batch is read from there."""

    server: Server
    table: str
    slot: Slot
    declared: bool
    snapshot: bool
    keep: timedelta
    on_truncate: OnTruncate
    on_added: OnAdded

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

    def _registered(self, reading: Reading) -> str:
        fields = {f.name: f.dataType.simpleString() for f in self._schema(reading).fields if f.name not in CHANGE_TYPES}
        landing = Landing(
            server=self.server.revealed(),
            table=self.table,
            slot=self.slot,
            fields=fields,
            declared=self.declared,
            snapshot=self.snapshot,
            on_truncate=self.on_truncate,
            on_added=self.on_added,
            rows=self.max_rows_per_batch,
        )
        generation = reading.folder.parent
        plan = ChangesPlan(landing, folder_of(reading.folder, reading.name), generation.name, self.keep)
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}")

    def _schema(self, reading: Reading) -> StructType:
        """The fields of the table, declared or as they were at the first start, and those of a change."""
        return with_changes(reading.schema_of(self._inferred))

    def _inferred(self) -> StructType:
        with self.server.connected() as connection:
            table = table_of(connection, self.table, step=self.name)
        return struct_of(table.fields(), table=table.quoted, step=self.name)
