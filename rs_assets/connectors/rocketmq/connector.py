"""`CONNECTOR` for RocketMQ: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code
from rs_assets.connectors.rocketmq.nodes import RocketmqSink, RocketmqSource
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _reader(node: RocketmqSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.rocketmq.client.pulling import Filter
    from rs_assets.connectors.rocketmq.source.reader import TopicReader

    return TopicReader(
        name=node.name,
        cluster=node.cluster,
        topic=node.topic,
        selected=Filter("TAG", node.tags) if node.sql is None else Filter("SQL92", node.sql),
        group=node.group,
        form=node.format,
        metadata=node.metadata,
        starting=node.starting,
        max_rows_per_batch=node.max_rows_per_batch,
    )


def _writer(node: RocketmqSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.rocketmq.sink.at_least_once import RocketmqWriter
    from rs_assets.connectors.rocketmq.sink.read_back import ReadBackWriter

    return RocketmqWriter(node) if node.delivery == "at_least_once" else ReadBackWriter(node)


def _check(node: RocketmqSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)


def _check_rows(node: RocketmqSink, rows: DataFrame) -> None:
    from rs_assets.connectors.rocketmq.sink.rows import as_messages

    _ = as_messages(rows, node)


def _sends(node: RocketmqSink) -> str:
    return f"Sends each row to the RocketMQ topic {code(node.topic)}, {node.delivery.replace('_', ' ')}"


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=RocketmqSource,
            reader=_reader,
            describe=lambda node: f"Reads the messages ({node.format}) of the RocketMQ topic {code(node.topic)}",
            places=lambda node, _home: (f"rocketmq://{';'.join(node.cluster.servers)}/{node.topic}",),
        ),
    ),
    sinks=(SinkConnector(node=RocketmqSink, writer=_writer, describe=_sends, check=_check, check_rows=_check_rows),),
)
