"""The source of a table of MariaDB: its rows, then its changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql.types import StructType

from rs_assets.connectors.changes.landed import landed_lost
from rs_assets.connectors.changes.nodes import CHANGE_TYPES, OnAdded, OnTruncate
from rs_assets.connectors.changes.plan import ChangesPlan
from rs_assets.connectors.changes.reading import check_one_query, folder_of, landed_of, struct_of, with_changes
from rs_assets.connectors.mariadb.landing import Landing, check_place
from rs_assets.connectors.mariadb.server import Server, check_logging
from rs_assets.connectors.mariadb.table import table_of
from rs_assets.connectors.own.reader import NumberedReader
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.source import Known, Reading, Start, sealed_error


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogReader(NumberedReader):
    """Exactly once: changes come to disk with the place in the log that follows them, and are read from there."""

    server: Server
    table: str
    declared: bool
    snapshot: bool
    keep: timedelta
    on_truncate: OnTruncate
    on_added: OnAdded

    def check(self, start: Start) -> Known:
        """One query may read it; what has landed must be there, and the server must have the log that follows."""
        check_one_query(start, self.name)
        with self.server.connected() as client:
            table = table_of(client.ask, self.table, step=self.name)
            check_logging(client, table.schema, step=self.name)
            for log in start.logs:
                landed, read = landed_of(log)
                parts = landed.parts(read)
                if read and not (parts and parts[0].first <= read <= parts[-1].end):
                    raise landed_lost(landed.folder, read)
                if landed.reached() is not None:
                    check_place(client, landed)
                if start.sealed and (landed.end() > read or self._landing(table.fields()).pending(landed)):
                    raise sealed_error(self.name)
        return start.known

    def _registered(self, reading: Reading) -> str:
        fields = {f.name: f.dataType.simpleString() for f in self._schema(reading).fields if f.name not in CHANGE_TYPES}
        folder, generation = folder_of(reading.folder, reading.name), reading.folder.parent
        plan = ChangesPlan(self._landing(fields), folder, generation.name, self.keep)
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}")

    def _landing(self, fields: dict[str, str]) -> Landing:
        return Landing(
            server=self.server.revealed(),
            table=self.table,
            step=self.name,
            fields=fields,
            declared=self.declared,
            snapshot=self.snapshot,
            on_truncate=self.on_truncate,
            on_added=self.on_added,
            rows=self.max_rows_per_batch,
        )

    def _schema(self, reading: Reading) -> StructType:
        """The fields of the table, declared or as they were at the first start, and those of a change."""
        return with_changes(reading.schema_of(self._inferred))

    def _inferred(self) -> StructType:
        with self.server.connected() as client:
            table = table_of(client.ask, self.table, step=self.name)
        return struct_of(table.fields(), table=table.quoted, step=self.name)
