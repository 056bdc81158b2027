"""What the project knows of webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code
from rs_assets.connectors.webhook.nodes import WebhookSource

if TYPE_CHECKING:
    from rs_assets.connectors.collector.collecting import Collector
    from rs_assets.connectors.source import SourceReader


def _collector(node: WebhookSource) -> Collector:
    from rs_assets.connectors.webhook.collector import WebhookCollector

    return WebhookCollector(
        host=node.host,
        port=node.port,
        path=node.path,
        token=node.token,
        max_bytes=node.max_bytes,
        form=node.format,
    )


def _reader(node: WebhookSource, home: Home) -> SourceReader:
    from rs_assets.connectors.collector.reader import reader_of

    return reader_of(node, home, _collector(node))


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=WebhookSource,
            reader=_reader,
            collector=_collector,
            describe=lambda node: f"Reads the records ({node.format}) that are posted to {code(node.path)}",
        ),
    ),
)
