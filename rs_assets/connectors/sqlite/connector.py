"""`CONNECTOR` for SQLite: its nodes, with what compiler, SQL and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, SqlSink, SqlSource, code
from rs_assets.connectors.sqlite.nodes import SqliteSink, SqliteSource

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader
    from rs_assets.sql.connectors.sinks import SinkTable
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _reader(node: SqliteSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.sqlite.reader import SqliteReader

    rows = node.max_rows_per_batch
    return SqliteReader(name=node.name, path=node.path, table=node.table, max_rows_per_batch=rows)


def _writer(node: SqliteSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.sqlite.writer import SqliteWriter

    return SqliteWriter(node.name, node.path, node.table)


def _read_table(table: SourceTable) -> DataStream | Table:
    path, name = table.options.need("path", "shop.db"), table.options.need("table", "orders")
    return table.rows(table.begin.from_sqlite(path, name, schema=table.schema, name=table.name))


def _write_table(table: SinkTable) -> DataStream:
    path, name = table.options.need("path", "shop.db"), table.options.need("table", "totals")
    return table.stream.to_sqlite(path, name, name=table.name)


SQL_SOURCE = SqlSource(read=_read_table)
SQL_SINK = SqlSink(write=_write_table)
CONNECTOR = Connector(
    name="sqlite",
    sources=(
        SourceConnector(
            node=SqliteSource,
            reader=_reader,
            describe=lambda node: f"Reads the SQLite table {code(node.table)} of {code(node.path)}",
            places=lambda node, _home: (f"{node.path}:{node.table}",),
        ),
    ),
    sinks=(
        SinkConnector(
            node=SqliteSink,
            writer=_writer,
            describe=lambda node: f"Adds rows to the SQLite table {code(node.table)} of {code(node.path)}",
        ),
    ),
    sql=__name__,
)
