"""What the project knows of RocketMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code
from rs_assets.connectors.rocketmq.nodes import RocketmqSource
from rs_assets.connectors.rocketmq.tables import SQL_SOURCE

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader


def _reader(node: RocketmqSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
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


CONNECTOR = Connector(
    name="rocketmq",
    sources=(
        SourceConnector(
            node=RocketmqSource,
            reader=_reader,
            describe=lambda node: f"Reads the messages ({node.format}) of the RocketMQ topic {code(node.topic)}",
        ),
    ),
    sql_source=SQL_SOURCE,
)
