"""`CONNECTOR` for user-defined sources and sinks: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code
from rs_assets.connectors.own.nodes import CustomSource, WriterSink

CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=CustomSource,
            reader=lambda node, _home: node.reader(),
            describe=lambda node: f"Reads rows with {code(node.detail())}, a source of this project",
            places=lambda node, _home: (node.located(),),
        ),
    ),
    sinks=(
        SinkConnector(
            node=WriterSink,
            writer=lambda node, _home, _namespace: node.writer,
            describe=lambda node: f"Writes rows with {code(node.detail())}, a sink of this project",
        ),
    ),
)
