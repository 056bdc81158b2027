"""`CONNECTOR` for standard output: its nodes, with what compiler, SQL and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SqlSink
from rs_assets.connectors.console.nodes import PrintSink

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.sql.connectors.sinks import SinkTable
    from rs_assets.stream.data_stream import DataStream


def _writer(node: PrintSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.console.writer import ConsoleWriter

    return ConsoleWriter(node.name, node.max_rows)


def _write_table(table: SinkTable) -> DataStream:
    return table.stream.to_print(max_rows=table.options.number("max-rows") or 20, name=table.name)


SQL_SINK = SqlSink(write=_write_table, keys=True, updates=True, partitions=True)
CONNECTOR = Connector(
    name="print",
    sinks=(SinkConnector(node=PrintSink, writer=_writer, describe=lambda _: "Shows each batch on standard output"),),
    sql=__name__,
)
