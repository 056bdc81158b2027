"""Rows as Protobuf values with the header of a schema registry."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from rs_assets.connectors.kafka.registry.described import described, text_of
from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage
from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.registry.subject import ProtobufSubject
from rs_assets.connectors.kafka.sink.avro import HEADER
from rs_assets.errors import TopologyError
from rs_assets.records.schema import quoted
from rs_assets.records.types import type_in
from rs_assets.spark.processor.session import processors_of


def protobuf_value(
    rows: DataFrame, names: Sequence[str], protobuf: ProtobufSubject, ids: SchemaIds | None, *, step: str
) -> Column:
    """The fields `names` as one value; registers their message with `ids`, without it no message is registered.

    TopologyError for fields that the message does not have, or has with another type.
    """
    columns = [F.col(quoted(name)) for name in names]
    message = _message(rows, names, protobuf, ids, step)
    schema = rows.select(*columns).schema.json()
    ours = processors_of(rows)
    refused = ours.ProtobufValues.refused(schema, message.name, message.files)
    if refused:
        raise TopologyError(
            f"step {step!r}: {refused}",
            remedy="convert the field before the sink: .with_fields(n='CAST(n AS bigint)')",
            step=step,
        )
    number = ids.of(text_of(message.file)) if ids is not None else 0
    header = struct.pack(HEADER, 0, number) + indexes(message.path)
    row = F.struct(*columns)._jc  # noqa: SLF001  pyspark has no public way to its JVM
    return ClassicColumn(ours.ProtobufValues.column(row, schema, message.name, message.files, header))


def indexes(path: Sequence[int]) -> bytes:
    r"""The part of a header that names a message in its file; a single byte for the first one.

    >>> indexes((0,)), indexes((1, 0))
    (b'\x00', b'\x04\x02\x00')
    """
    if tuple(path) == (0,):
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    """A number from 0 as a varint of its zigzag form."""
    left, made = number * 2, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _message(
    rows: DataFrame, names: Sequence[str], protobuf: ProtobufSubject, ids: SchemaIds | None, step: str
) -> ProtobufMessage:
    """The declared message, or that of the fields, which keep the numbers of the newest version that is registered."""
    if protobuf.message.files:
        return protobuf.message
    kinds = {name: type_in(rows.schema[name].dataType.simpleString()) for name in names}
    return described(protobuf.message.name, kinds, ids.newest() if ids is not None else None, step=step)
