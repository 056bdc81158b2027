"""What the project knows of MQTT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, listed
from rs_assets.connectors.mqtt.nodes import MqttSource

if TYPE_CHECKING:
    from rs_assets.connectors.collector.collecting import Collector
    from rs_assets.connectors.source import SourceReader


def _collector(node: MqttSource) -> Collector:
    """The collector of a source."""
    from rs_assets.connectors.mqtt.collector import MqttCollector

    return MqttCollector(
        broker=node.broker,
        topics=node.topics,
        qos=node.qos,
        client_id=node.client_id,
        clean_session=node.clean_session,
        reconnect=node.reconnect,
    )


def _reader(node: MqttSource, home: Home) -> SourceReader:
    from rs_assets.connectors.collector.reader import reader_of

    return reader_of(node, home, _collector(node))


CONNECTOR = Connector(
    name="mqtt",
    sources=(
        SourceConnector(
            node=MqttSource,
            reader=_reader,
            collector=_collector,
            describe=lambda node: f"Reads the messages ({node.format}) of the MQTT topics {listed(node.topics)}",
        ),
    ),
)
