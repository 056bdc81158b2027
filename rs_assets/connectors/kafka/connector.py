"""`CONNECTOR` for Kafka: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code, listed
from rs_assets.connectors.kafka.nodes import AVRO, KafkaSink, KafkaSource
from rs_assets.connectors.messages import no_record_time
from rs_assets.records.fields import Fields
from rs_assets.records.policy import BadRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.kafka.source.avro import AvroFormat
    from rs_assets.connectors.kafka.source.keys import KeyFields
    from rs_assets.connectors.kafka.source.protobuf import ProtobufFormat
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _reader(node: KafkaSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.kafka.source.reader import TopicsReader
    from rs_assets.connectors.kafka.source.reading import KafkaReader

    read = KafkaReader(
        cluster=node.cluster,
        topics=node.topics,
        pattern=node.pattern,
        form="avro" if node.format in AVRO else node.format,
        metadata=node.metadata,
        tombstones=node.tombstones,
        read_committed=node.read_committed,
        on_data_loss=node.on_data_loss,
        max_rows_per_batch=node.max_rows_per_batch,
        min_partitions=node.min_partitions,
        options=node.options,
        avro=_avro(node) if node.format in AVRO else None,
        protobuf=_protobuf(node) if node.protobuf is not None else None,
        keys=_keys(node),
    )
    return TopicsReader(
        name=node.name,
        read=read,
        starting=node.starting,
        group=node.group,
        dead_letter_topic=node.dead_letter_topic,
        pinned=node.policy is not BadRecords.FAIL,
    )


def _keys(node: KafkaSource) -> KeyFields | None:
    from rs_assets.connectors.kafka.source.keys import KeyFields

    return KeyFields(node.key_schema, node.key_format) if node.key_schema is not None else None


def _avro(node: KafkaSource) -> AvroFormat:
    from rs_assets.connectors.kafka.source.avro import AvroFormat

    return AvroFormat(schema=node.avro_schema, registry=node.registry, schema_id=node.schema_id)


def _protobuf(node: KafkaSource) -> ProtobufFormat:
    from rs_assets.connectors.kafka.source.protobuf import ProtobufFormat

    assert node.protobuf is not None  # a node of this format has it, and a schema
    return ProtobufFormat(
        schema=str(node.schema),
        message=node.protobuf,
        step=node.name,
        registry=node.registry,
        schema_id=node.schema_id,
    )


def _writer(node: KafkaSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.kafka.sink.at_least_once import KafkaWriter
    from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter

    made = KafkaWriter if node.delivery == "at_least_once" else TransactionalWriter
    return made(name=node.name, cluster=node.cluster, shape=node.shape, options=node.options)


def _check(node: KafkaSink, fields: Fields) -> None:
    fields.check(node.shape.fields, step=node.name)
    kind = fields.type_of(node.timestamp) if node.timestamp is not None else None
    if kind is not None and not kind.name.startswith("timestamp"):
        raise no_record_time(str(node.timestamp), kind.text, step=node.name)


def _check_rows(node: KafkaSink, rows: DataFrame) -> None:
    from rs_assets.connectors.kafka.sink.records import records

    _ = records(rows, node.shape, step=node.name)


def _reads(node: KafkaSource) -> str:
    named = f"{listed(node.topics)} of Kafka" if node.topics else f"Kafka topics that match {code(node.pattern)}"
    return f"Reads the records ({node.format}) of {named}"


def _places(node: KafkaSource, _home: Home) -> tuple[str, ...]:
    """The topics; those of a pattern are not known here."""
    return tuple(f"kafka://{','.join(node.cluster.servers)}/{topic}" for topic in node.topics)


def _sends(node: KafkaSink) -> str:
    where = code(node.topic) if node.topic else f"in its {code(node.topic_field)}"
    return f"Sends each row to the Kafka topic {where}, {node.delivery.replace('_', ' ')}"


CONNECTOR = Connector(
    sources=(SourceConnector(node=KafkaSource, reader=_reader, describe=_reads, places=_places),),
    sinks=(SinkConnector(node=KafkaSink, writer=_writer, describe=_sends, check=_check, check_rows=_check_rows),),
)
