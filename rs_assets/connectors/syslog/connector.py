"""What the project knows of syslog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector
from rs_assets.connectors.syslog.nodes import SyslogSource

if TYPE_CHECKING:
    from rs_assets.connectors.collector.collecting import Collector
    from rs_assets.connectors.source import SourceReader


def _collector(node: SyslogSource) -> Collector:
    from rs_assets.connectors.syslog.collector import SyslogCollector

    return SyslogCollector(host=node.host, port=node.port, protocol=node.protocol, max_bytes=node.max_bytes)


def _reader(node: SyslogSource, home: Home) -> SourceReader:
    from rs_assets.connectors.collector.reader import reader_of
    from rs_assets.connectors.syslog.parse import syslog_line

    return reader_of(node, home, _collector(node), value=partial(syslog_line, zone=node.time_zone))


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=SyslogSource,
            reader=_reader,
            collector=_collector,
            describe=lambda node: f"Reads the messages of syslog ({node.protocol}) on port {node.port}",
        ),
    ),
)
