"""Rows as messages: body, key and tag of each, computed by Spark and collected on the driver."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from rs_assets.connectors.rocketmq.client.messages import END, KEYS, NAME, TAGS, dump_properties, sent
from rs_assets.connectors.rocketmq.nodes import RocketmqSink
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError, TopologyError
from rs_assets.records.columns import check_fields
from rs_assets.records.schema import quoted

# The property with the identity of a row, by which an exactly-once sink finds it again.
ROW_ID: Final = "RS_ID"
# Nulls are written, and times with microseconds: a reader gets the row unchanged.
JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
NESTED: Final = (ArrayType, MapType, StructType)
# The limit of all properties of a message, in bytes.
MOST_PROPERTIES: Final = 32_767


class Outgoing(NamedTuple):
    """A message to send: its key (None for none), and its bytes as a part of a batch."""

    key: str | None
    id: str
    content: bytes


def as_messages(rows: DataFrame, node: RocketmqSink) -> DataFrame:
    """The columns body, key and tag. UnknownFieldError or TopologyError for fields that cannot be those."""
    check_fields(rows, node.named, step=node.name)
    for what in ("key", "tags", "value"):
        _check_plain(rows, getattr(node, what), what, node.name)
    return rows.select(_body(rows, node.value), _text(node.key, "key"), _text(node.tags, "tag"))


def outgoing(rows: pa.Table, node: RocketmqSink, mark: BatchMark | None = None) -> Iterator[Outgoing]:
    """The messages of collected rows; with a `mark` each has an identity made of the batch and its content.

    SinkError for a row that RocketMQ would refuse.
    """
    seen: Counter[bytes] = Counter()
    batch = row_ids(mark) if mark is not None else ""
    columns = (rows.column(name).to_pylist() for name in ("body", "key", "tag"))
    for body, key, tag in zip(*columns, strict=True):
        named = {KEYS: key, TAGS: tag}
        properties = {name: text for name, text in named.items() if text}
        row_id = ""
        if batch:
            digest = hashlib.blake2b(dump_properties(properties) + END + (body or b""), digest_size=12).digest()
            seen[digest] += 1
            row_id = f"{batch}{digest.hex()}.{seen[digest]}"
            properties[ROW_ID] = row_id
        written = dump_properties(properties)
        _check(body, key, tag, written, node)
        yield Outgoing(key, row_id, sent(body, written))


def row_ids(mark: BatchMark) -> str:
    """What the identities of all rows of a batch begin with.

    >>> row_ids(BatchMark("id", 1, "orders", 7))
    '...-1-7.'
    """
    writer = hashlib.blake2b(f"{mark.pipeline_id}/{mark.sink}".encode(), digest_size=6).hexdigest()
    return f"{writer}-{mark.generation}-{mark.batch_id}."


def _check(body: bytes | None, key: str | None, tag: str | None, properties: bytes, node: RocketmqSink) -> None:
    separators = any(mark.decode() in (text or "") for mark in (NAME, END) for text in (key, tag))
    wrong = {
        "its body is empty": not body,
        "its key or tag has a control character that separates properties": separators,
        f"its key and tag have more than {MOST_PROPERTIES} bytes": len(properties) > MOST_PROPERTIES,
        "its tag has '|'": "|" in (tag or ""),
    }
    for why, holds in wrong.items():
        if holds:
            raise SinkError(
                f"a row cannot be sent to the topic {node.topic!r}: {why}",
                remedy="filter out such rows, or correct the field before the sink",
                step=node.name,
                key=key,
            )


def _check_plain(rows: DataFrame, name: str | None, what: str, step: str) -> None:
    kind = rows.schema[name].dataType if name is not None else None
    if isinstance(kind, NESTED):
        raise TopologyError(
            f"step {step!r}: the field {name!r} is {kind.simpleString()}, which cannot be the {what} of a message",
            remedy=f"convert it to text: .with_fields({name}='to_json({name})')",
            step=step,
        )


def _body(rows: DataFrame, name: str | None) -> Column:
    if name is None:
        fields = [F.col(quoted(field)) for field in rows.columns]
        return F.to_json(F.struct(*fields), JSON_OPTIONS).cast("binary").alias("body")
    column = F.col(quoted(name))
    kept = column if isinstance(rows.schema[name].dataType, BinaryType) else column.cast("string").cast("binary")
    return kept.alias("body")


def _text(name: str | None, alias: str) -> Column:
    return (F.lit(None) if name is None else F.col(quoted(name))).cast("string").alias(alias)
