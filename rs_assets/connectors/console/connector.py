"""`CONNECTOR` for standard output: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector
from rs_assets.connectors.console.nodes import PrintSink

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter


def _writer(node: PrintSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.console.writer import ConsoleWriter

    return ConsoleWriter(node.name, node.max_rows)


CONNECTOR = Connector(
    sinks=(SinkConnector(node=PrintSink, writer=_writer, describe=lambda _: "Shows each batch on standard output"),),
)
