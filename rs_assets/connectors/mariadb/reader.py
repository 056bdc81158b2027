"""The source of a table of MariaDB: its rows, then its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from rs_assets.connectors.changes.landed import landed_lost
from rs_assets.connectors.changes.reader import TableReader
from rs_assets.connectors.changes.reading import check_one_query, landed_of, struct_of
from rs_assets.connectors.mariadb.landing import Landing, check_place
from rs_assets.connectors.mariadb.server import Server, check_logging
from rs_assets.connectors.mariadb.table import table_of
from rs_assets.connectors.source import Known, Start, sealed_error


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogReader(TableReader):
    """Exactly once: changes come to disk with the place in the log that follows them, and are read from there."""

    server: Server

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
                if start.sealed and (landed.end() > read or self.landing(table.fields()).pending(landed)):
                    raise sealed_error(self.name)
        return start.known

    def landing(self, fields: Mapping[str, str]) -> Landing:
        """By the log of the server."""
        return Landing(server=self.server.revealed(), step=self.name, fields=fields, **self.landed_by)

    def inferred(self) -> StructType:
        """The fields of the table as it is."""
        with self.server.connected() as client:
            table = table_of(client.ask, self.table, step=self.name)
        return struct_of(table.fields(), table=table.quoted, step=self.name)
