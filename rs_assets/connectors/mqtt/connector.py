"""What the project knows of MQTT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code, listed
from rs_assets.connectors.mqtt.nodes import MqttSink, MqttSource
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.collector.collecting import Collector
    from rs_assets.connectors.sink import SinkWriter
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


def _writer(node: MqttSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.mqtt.writer import MqttWriter

    return MqttWriter(node)


def _check(node: MqttSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)


def _check_rows(node: MqttSink, rows: DataFrame) -> None:
    from rs_assets.connectors.mqtt.writer import as_messages

    _ = as_messages(rows, node)


def _publishes(node: MqttSink) -> str:
    where = code(node.topic) if node.topic is not None else f"that {code(node.topic_field)} names"
    return f"Publishes each row to the MQTT topic {where}, at least once"


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=MqttSource,
            reader=_reader,
            collector=_collector,
            describe=lambda node: f"Reads the messages ({node.format}) of the MQTT topics {listed(node.topics)}",
            places=lambda node, _home: tuple(f"{node.broker.url}/{topic}" for topic in node.topics),
        ),
    ),
    sinks=(SinkConnector(node=MqttSink, writer=_writer, describe=_publishes, check=_check, check_rows=_check_rows),),
)
