"""What the project knows of HTTP services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, code
from rs_assets.connectors.http.nodes import HttpSink
from rs_assets.connectors.http.tables import SQL_SINK

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter


def _writer(node: HttpSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.http.writer import HttpWriter

    return HttpWriter(node)


CONNECTOR = Connector(
    name="http",
    sinks=(
        SinkConnector(
            node=HttpSink,
            writer=_writer,
            describe=lambda node: f"Sends rows to {code(node.endpoint.where)}, at most {node.batch:,} a request",
        ),
    ),
    sql_sink=SQL_SINK,
)
