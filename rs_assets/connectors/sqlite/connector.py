"""`CONNECTOR` for SQLite: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code
from rs_assets.connectors.sqlite.nodes import SqliteSink, SqliteSource

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _reader(node: SqliteSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.sqlite.reader import SqliteReader

    rows = node.max_rows_per_batch
    return SqliteReader(name=node.name, path=node.path, table=node.table, max_rows_per_batch=rows)


def _writer(node: SqliteSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.sqlite.writer import SqliteWriter

    return SqliteWriter(node.name, node.path, node.table)


CONNECTOR = Connector(
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
)
