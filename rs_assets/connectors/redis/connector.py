"""What the project knows of Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code, listed
from rs_assets.connectors.redis.nodes import RedisSource
from rs_assets.connectors.redis.tables import SQL_SOURCE

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader


def _reader(node: RedisSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.redis.address import RedisPlace
    from rs_assets.connectors.redis.source.reader import StreamsReader

    return StreamsReader(
        name=node.name,
        place=RedisPlace(node.url, node.name),
        streams=node.streams,
        form=node.format,
        value=node.value,
        metadata=node.metadata,
        starting=node.starting,
        max_rows_per_batch=node.max_rows_per_batch,
    )


CONNECTOR = Connector(
    name="redis",
    sources=(
        SourceConnector(
            node=RedisSource,
            reader=_reader,
            describe=lambda node: f"Reads the entries ({node.format}) of {listed(node.streams)} of {code(node.where)}",
        ),
    ),
    sql_source=SQL_SOURCE,
)
