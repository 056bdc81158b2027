"""`CONNECTOR` for Postgres as a source: its nodes, with what compiler, SQL and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.common.secrets import FromEnvironment
from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.connectors.changes.sql import POLICIES, STARTS, rows_of
from rs_assets.connectors.connector import Connector, SourceConnector, SqlSource, code
from rs_assets.connectors.postgres.nodes import PostgresSource

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

NAME = "postgres-cdc"


def _reader(node: PostgresSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.changes.reader import settings_of
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.postgres.reader import ChangesReader
    from rs_assets.connectors.postgres.server import Server
    from rs_assets.connectors.postgres.slot import Slot

    slot = Slot(node.slot, node.publication, node.name)
    return ChangesReader(server=Server(Place(node.url, node.name)), slot=slot, **settings_of(node))


def _read(table: SourceTable) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    options = table.options
    url = options.need("url", "$SHOP_DATABASE")
    stream = table.begin.from_postgres(
        FromEnvironment(url[1:]) if url.startswith("$") else url,
        options.need("table-name", "public.orders"),
        schema=table.schema,
        slot=options.take("slot.name"),
        publication=options.take("publication.name"),
        snapshot=options.choice("scan.startup.mode", STARTS, "initial"),
        truncate=options.choice("truncate", POLICIES, "fail"),
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 100_000,
        name=table.name,
    )
    return rows_of(table, stream, NAME)


SQL_SOURCE = SqlSource(read=_read, metadata=CHANGE_TYPES)
CONNECTOR = Connector(
    name=NAME,
    sources=(
        SourceConnector(
            node=PostgresSource,
            reader=_reader,
            describe=lambda node: f"Reads the table {code(node.where)}, then each of its changes",
            places=lambda node, _home: (node.where,),
        ),
    ),
    sql=__name__,
)
