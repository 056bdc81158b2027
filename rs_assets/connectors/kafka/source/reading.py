"""Reads Kafka records as a frame by Spark's connector, as a stream or a range of offsets, decoded into fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from rs_assets.connectors.files.parse import LineFormat, parsed_json
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import INTERNAL
from rs_assets.connectors.kafka.source.avro import PARSED, AvroFormat
from rs_assets.connectors.kafka.source.keys import KeyFields, utf8_reason
from rs_assets.connectors.kafka.source.offsets import EARLIEST, Offsets, dump_offsets, ranges
from rs_assets.connectors.kafka.source.protobuf import ProtobufFormat
from rs_assets.records.columns import LINE, OFFSET, RAW, RAW_LIMIT_BYTES, REASON, SPLIT
from rs_assets.records.schema import quoted

FORMAT = "kafka"
# The source in our own library that stops at a recorded end.
NOTED = "org.apache.spark.sql.rsassets.NotedSource"
# How long a broker may be unavailable during a batch. Kafka's own limit, 60 s, would fail the query in the middle of a
# batch: a restart of a large broker takes longer.
AWAY_MS = 180_000
# Two thirds of the time of Kafka's defaults (500 records, 1 MiB) for small records.
LARGE_FETCHES: Mapping[str, str] = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
}
# Spark's own columns, in the order of format "raw".
RAW_FIELDS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReader:
    """The selection of a cluster's records, and how they become fields.

    `options` are settings of Kafka's consumer, and `headers_as` is a column for their headers. A stream goes no further
    than the offsets in the file `until`.
    """

    cluster: KafkaCluster
    topics: tuple[str, ...]
    pattern: str | None
    form: str
    schema: StructType | None = None
    metadata: tuple[str, ...] = ()
    tombstones: str = "skip"
    read_committed: bool = True
    on_data_loss: str = "fail"
    max_rows_per_batch: int | None = None
    min_partitions: int | None = None
    avro: AvroFormat | None = None
    protobuf: ProtobufFormat | None = None
    keys: KeyFields | None = None
    json_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    headers_as: str | None = None
    until: Path | None = None

    def stream(
        self, spark: SparkSession, *, name: str, starting: Mapping[str, str], addressed: bool = False
    ) -> DataFrame:
        """Fields and REASON (and ADDRESS), as a stream that begins as the options `starting` say."""
        reader = self._connected(spark.readStream.name(name).format(FORMAT)).options(**starting)
        if self.until is not None:
            reader = reader.format(NOTED).option("rs.source", FORMAT).option("rs.end", str(self.until))
        if self.max_rows_per_batch:
            reader = reader.option("maxOffsetsPerTrigger", self.max_rows_per_batch)
        return self.decoded(reader.load(), addressed=addressed)

    def batch(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Fields, REASON and ADDRESS of the records between two sets of offsets."""
        return self.decoded(self.records(spark, start, end), addressed=True)

    def records(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """The records between two sets of offsets, as returned by Spark's connector."""
        wanted = {partition: (first, until) for partition, first, until in ranges(start, end) if until > first}
        if not wanted:
            return spark.createDataFrame([], _RECORD)
        reader = spark.read.format(FORMAT).options(**self._common())
        # A pattern would match topics that did not exist when the batch was planned.
        reader = reader.option("assign", _assigned(wanted))
        reader = reader.option("startingOffsets", dump_offsets({p: first for p, (first, _) in wanted.items()}))
        return reader.option("endingOffsets", dump_offsets({p: until for p, (_, until) in wanted.items()})).load()

    def decoded(self, records: DataFrame, *, addressed: bool = False) -> DataFrame:
        """Fields and REASON (and ADDRESS) of records from the connector."""
        frame = records.filter(F.col("value").isNotNull()) if self.tombstones == "skip" else records
        if self.form != "raw" and self.tombstones == "bad":
            return self._select(frame, F.when(F.col("value").isNull(), F.lit("the record has no value")), addressed)
        return self._select(frame, None, addressed)

    def _select(self, frame: DataFrame, unusable: Column | None, addressed: bool) -> DataFrame:  # noqa: FBT001
        frame, fields, refused = DECODERS[self.form](self, frame)
        frame, keys, bad_key = self.keys.decoded(frame) if self.keys is not None else (frame, [], None)
        reasons = (unusable, refused, utf8_reason() if "key" in self.metadata else None, bad_key)
        reason = F.coalesce(*(c for c in reasons if c is not None), F.lit(None).cast("string"))
        extra = [_metadata(name) for name in self.metadata] + keys
        extra += [F.col("headers").alias(self.headers_as)] if self.headers_as else []
        return frame.select(*fields, *extra, reason.alias(REASON), *(_address() if addressed else ()))

    def _connected(self, reader: DataStreamReader) -> DataStreamReader:
        # Headers cost time for each record, so they are read only if they are used.
        headers = self.form == "raw" or "headers" in self.metadata or self.headers_as is not None
        reader = reader.options(**self._common()).option("includeHeaders", headers)
        if self.min_partitions:
            reader = reader.option("minPartitions", self.min_partitions)
        if self.pattern is not None:
            return reader.option("subscribePattern", java_pattern(self.pattern))
        if self.on_data_loss == "continue":
            # A topic of a list must exist; one of a pattern may disappear and come back.
            return reader.option("subscribePattern", f"^(?:{'|'.join(map(re.escape, self.topics))})$")
        return reader.option("subscribe", ",".join(self.topics))

    def _common(self) -> dict[str, str]:
        return {
            **self.cluster.for_spark(),
            "includeHeaders": "true",
            **LARGE_FETCHES,
            # For the driver, which asks for offsets three times, and for tasks, which ask once and then fetch.
            "kafka.default.api.timeout.ms": str(AWAY_MS),
            **{f"kafka.{name}": value for name, value in self.options.items()},
            "kafkaConsumer.pollTimeoutMs": str(AWAY_MS),
            "failOnDataLoss": str(self.on_data_loss == "fail").lower(),
            "kafka.isolation.level": "read_committed" if self.read_committed else "read_uncommitted",
        }


_RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)


def starting_options(starting: object) -> dict[str, str]:
    """The options of Spark's connector for the beginning; partitions that are not named begin at their earliest record.

    >>> starting_options({"orders": {0: 17}})
    {'startingOffsets': '{"orders":{"0":17}}'}
    """
    if isinstance(starting, datetime):
        moment = str(int(starting.timestamp() * 1000))
        return {"startingTimestamp": moment, "startingOffsetsByTimestampStrategy": "latest"}
    if isinstance(starting, Mapping):
        named = {(t, p): o for t, partitions in starting.items() for p, o in partitions.items()}
        return {"startingOffsets": dump_offsets(named)}
    return {"startingOffsets": str(starting)}


def java_pattern(pattern: str) -> str:
    r"""`pattern` for Spark's connector, as a match of the whole name, without Kafka's own topics and ours.

    >>> java_pattern("a|b")
    '^(?!__|rs-assets-commits$|rs-assets-shuffle\\.)(?:a|b)$'
    """
    return f"^(?!{INTERNAL})(?:{pattern})$"


def _assigned(partitions: Mapping[tuple[str, int], object]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return orjson.dumps(topics).decode()


def _address() -> tuple[Column, ...]:
    """The split, twice the offset (a record has no line), and the value as text."""
    text = F.make_valid_utf8(F.left(F.col("value"), F.lit(RAW_LIMIT_BYTES)).cast("string"))
    return (
        F.concat_ws("-", F.col("topic"), F.col("partition")).alias(SPLIT),
        F.col("offset").alias(LINE),
        F.col("offset").alias(OFFSET),
        text.alias(RAW),
    )


def _metadata(name: str) -> Column:
    return METADATA.get(name, F.col)(name).alias(f"kafka_{name}")


# The metadata that are not columns of Spark's connector.
METADATA: Mapping[str, Callable[[str], Column]] = MappingProxyType(
    {"key": lambda name: F.col(name).cast("string"), "tombstone": lambda _: F.col("value").isNull()}
)


Decoded = tuple[DataFrame, list[Column], Column | None]


def _json(reader: KafkaReader, frame: DataFrame) -> Decoded:
    assert reader.schema is not None  # given or inferred before
    text, options = F.col("value").cast("string"), {**LineFormat("json").reader_options, **reader.json_options}
    frame, refused = parsed_json(frame, text, reader.schema, options, into=PARSED)
    reason = F.coalesce(F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8")), refused)
    return frame, [F.col(f"{PARSED}.{quoted(f.name)}").alias(f.name) for f in reader.schema.fields], reason


def _text(_reader: KafkaReader, frame: DataFrame) -> Decoded:
    text = F.col("value").cast("string")
    return frame, [text.alias("value")], F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8"))


def _raw(_reader: KafkaReader, frame: DataFrame) -> Decoded:
    return frame, [F.col(name) for name in RAW_FIELDS], None


def _avro(reader: KafkaReader, frame: DataFrame) -> Decoded:
    assert reader.avro is not None  # the connector gives it with this format
    return reader.avro.decoded(frame)


def _protobuf(reader: KafkaReader, frame: DataFrame) -> Decoded:
    assert reader.protobuf is not None  # the connector gives it with this format
    return reader.protobuf.decoded(frame)


DECODERS: Mapping[str, Callable[[KafkaReader, DataFrame], Decoded]] = MappingProxyType(
    {"json": _json, "text": _text, "raw": _raw, "avro": _avro, "protobuf": _protobuf}
)
__all__ = ["EARLIEST", "KafkaReader", "starting_options"]
