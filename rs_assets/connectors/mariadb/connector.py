"""What the project knows of MariaDB as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.common.secrets import FromEnvironment
from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.connectors.changes.sql import POLICIES, STARTS, rows_of
from rs_assets.connectors.connector import Connector, SourceConnector, SqlSource, code
from rs_assets.connectors.mariadb.nodes import MariadbSource

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

NAME = "mariadb-cdc"


def _reader(node: MariadbSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.changes.reader import settings_of
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.mariadb.reader import BinlogReader
    from rs_assets.connectors.mariadb.server import Server

    server = Server(Place(node.url, node.name), node.server_id)
    return BinlogReader(server=server, **settings_of(node))


def read_table(table: SourceTable, *, connector: str = NAME) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    options = table.options
    url = options.need("url", "$SHOP_DATABASE")
    stream = table.begin.from_mariadb(
        FromEnvironment(url[1:]) if url.startswith("$") else url,
        options.need("table-name", "shop.orders"),
        schema=table.schema,
        server_id=options.number("server-id"),
        snapshot=options.choice("scan.startup.mode", STARTS, "initial"),
        truncate=options.choice("truncate", POLICIES, "fail"),
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 100_000,
        name=table.name,
    )
    return rows_of(table, stream, connector)


SQL_SOURCE = SqlSource(read=read_table, metadata=CHANGE_TYPES)
CONNECTOR = Connector(
    name=NAME,
    sources=(
        SourceConnector(
            node=MariadbSource,
            reader=_reader,
            describe=lambda node: f"Reads the table {code(node.where)}, then each of its changes",
            places=lambda node, _home: (node.where,),
        ),
    ),
    sql=__name__,
)
