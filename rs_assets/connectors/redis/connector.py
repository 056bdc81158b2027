"""What the project knows of Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code, listed
from rs_assets.connectors.messages import check_flag, no_key
from rs_assets.connectors.redis.nodes import RedisSink, RedisSource
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _reader(node: RedisSource, _home: Home) -> SourceReader:
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


def _writer(node: RedisSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.redis.address import RedisPlace
    from rs_assets.connectors.redis.sink.writer import RedisWriter

    return RedisWriter(node, RedisPlace(node.url, node.name))


def _check(node: RedisSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)
    check_flag(node.deletes, fields, step=node.name)
    for name in node.keys:
        kind = fields.type_of(name)
        if kind is not None and (kind.nested or kind.name in ("double", "float")):
            raise no_key(
                f"the key {name!r} is {kind.text}", why="whose values have no text of their own", step=node.name
            )


def _check_rows(node: RedisSink, rows: DataFrame) -> None:
    from rs_assets.records.columns import check_fields

    check_fields(rows, node.named, step=node.name)


def _writes(node: RedisSink) -> str:
    if node.structure == "stream":
        return f"Adds entries to the streams {code(node.place)}"
    gone = f"; a row whose {code(node.deletes)} is true removes it" if node.deletes else ""
    return f"Keeps a {node.structure} for each {listed(node.keys)} as {code(node.place)}{gone}"


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=RedisSource,
            reader=_reader,
            describe=lambda node: f"Reads the entries ({node.format}) of {listed(node.streams)} of {code(node.where)}",
            places=lambda node, _home: tuple(f"{node.where}/{stream}" for stream in node.streams),
        ),
    ),
    sinks=(SinkConnector(node=RedisSink, writer=_writer, describe=_writes, check=_check, check_rows=_check_rows),),
)
