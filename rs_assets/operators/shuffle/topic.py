"""The durable shuffle in a Kafka topic: partitioned as configured, with typed and versioned records, read committed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from rs_assets.common.plural import count_of
from rs_assets.connectors.kafka.client.admin import Admin, connected, partitions_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.records import JSON_OPTIONS
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.kafka.source.offsets import parse_offsets, split_name
from rs_assets.connectors.kafka.source.reading import KafkaReader
from rs_assets.connectors.kafka.source.topics import Watched
from rs_assets.connectors.sink import BatchMark, SinkWriter
from rs_assets.connectors.source import Known, Start, Watch, Watching
from rs_assets.errors import SinkError, TopologyError
from rs_assets.operators.shuffle.noted import NotedEnd
from rs_assets.operators.shuffle.once import OnceWriter
from rs_assets.records.columns import PREFIX, REASON, visible
from rs_assets.records.schema import quoted

VALUE, PARTITION, HEADERS = "value", "partition", "headers"
HEADERS_READ = f"{PREFIX}headers"
# The format of rows; readers refuse records of another version.
VERSION_HEADER, VERSION = "rs-shuffle", "1"
SCHEMA_HEADER = "rs-schema"
# Rows wait only until they are read and are purged then; nothing else may remove them.
SETTINGS: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
# How long a deleted topic may be visible, and a transaction of an earlier run may be open, in seconds.
PATIENCE_S, LOOK_S, RESUME_S = 30, 0.1, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShuffle:
    """A topic of `cluster` that belongs to one shuffle of one pipeline, `topic` its name; `noted` holds its end."""

    topic: str
    cluster: KafkaCluster
    partitions: int
    noted: Path
    keys: tuple[str, ...] = ()

    def begin(self, schema: StructType) -> None:  # noqa: ARG002  records carry their schema
        """Create an empty topic with the configured partitions."""
        self._end().forget()
        with connected(self.cluster) as admin:
            if self.topic in admin.topics([self.topic]):
                admin.client.delete_topics([self.topic])
                self._wait_until_gone(admin)
            admin.create_topic(self.topic, partitions=self.partitions, settings=SETTINGS)

    def resume(self) -> None:
        """Record batches that were committed and not recorded; an open batch is sent and recorded again."""
        self._check_partitions()
        with closing(self._end()) as end:
            end.noted_within(RESUME_S)

    def untouched(self, schema: StructType | None = None) -> bool:  # noqa: ARG002  records carry their schema
        """Whether the topic exists, with the configured partitions, and never had a record."""
        with connected(self.cluster) as admin:
            found = partitions_of(admin.topics([self.topic]))
            return len(found) == self.partitions and not any(admin.latest(found).values())

    def _check_partitions(self) -> None:
        with connected(self.cluster) as admin:
            found = admin.topics([self.topic]).get(self.topic)
        has = len(found.partitions) if found is not None else self.partitions
        if has < self.partitions:
            raise SinkError(
                f"the topic of a shuffle has {count_of(has, 'partition')}, the pipeline now needs {self.partitions}",
                remedy=f"put shuffle({has}, ...) back, or begin a new generation (rs-assets run --new-generation)",
                topic=self.topic,
            )

    def check(self, schema: StructType, *, step: str) -> None:
        """Refuse maps whose keys are not text: rows are written as JSON, and Spark reads no others from it."""
        for name, kind in _maps(schema):
            if not isinstance(kind.keyType, StringType):
                raise TopologyError(
                    f"step {step!r}: the field {name!r} holds {kind.simpleString()}, and a Kafka shuffle takes maps "
                    "with keys of text",
                    remedy="use shuffle(..., strategy='delta'), or make an array of it: map_entries(field)",
                    step=step,
                )

    def whole(self) -> bool:
        """Whether every partition still has its first record."""
        with connected(self.cluster) as admin:
            return not any(admin.earliest(partitions_of(admin.topics([self.topic]))).values())

    def writer(self, name: str) -> SinkWriter:
        """Sends batches in transactions, each row to the partition of its keys."""
        shape = RecordShape(topic=self.topic, value=VALUE, partition=PARTITION, headers=HEADERS)
        inner = TransactionalWriter(name=name, cluster=self.cluster, shape=shape)
        return OnceWriter(inner, self._encoded, self._end())

    def stream(self, spark: SparkSession, schema: StructType, *, name: str) -> DataFrame:
        """The rows from the first one on."""
        return self._checked(self._reader(schema).stream(spark, name=name, starting={"startingOffsets": "earliest"}))

    def batch(self, spark: SparkSession, schema: StructType, *, start: str | None, end: str) -> DataFrame:
        """The rows between two offsets."""
        first = {} if start is None else parse_offsets(start)
        return self._checked(self._reader(schema).batch(spark, first, parse_offsets(end)))

    def await_visible(self) -> None:
        """Wait for the markers of committed transactions: brokers answer before each partition has its own."""
        with closing(self._end()) as end:
            end.note()

    def has_more(self, offset: str | None) -> bool:  # noqa: ARG002
        """Always: Spark asks the brokers itself."""
        return True

    def splits(self, offset: str) -> Mapping[str, str]:
        """A split a partition."""
        return {split_name(partition): str(position) for partition, position in parse_offsets(offset).items()}

    def check_reader(self, source: str, start: Start) -> Known:
        """The id of the topic; DataLossError if an unread record is gone."""
        return self._watched(source).check(start)

    def watch(self, source: str, watching: Watching) -> Watch:
        """Each batch is compared with the topic before it is committed."""
        return self._watched(source).watch(watching)

    def _watched(self, source: str) -> Watched:
        return Watched(name=source, cluster=self.cluster, topics=(self.topic,), owned=True)

    def purge(self, offsets: list[str]) -> None:
        """Delete the records before the least offset of each partition."""
        every = [parse_offsets(offset) for offset in offsets]
        until = {p: min(known.get(p, 0) for known in every) for p in set().union(*every)}
        with connected(self.cluster) as admin:
            admin.delete_records({p: offset for p, offset in until.items() if offset > 0})

    def _end(self) -> NotedEnd:
        return NotedEnd(topic=self.topic, cluster=self.cluster, path=self.noted)

    def _reader(self, schema: StructType) -> KafkaReader:
        return KafkaReader(
            cluster=self.cluster,
            topics=(self.topic,),
            pattern=None,
            form="json",
            schema=schema,
            headers_as=HEADERS_READ,
            until=self.noted,
            json_options=JSON_OPTIONS,
        )

    def _encoded(self, rows: DataFrame, mark: BatchMark) -> DataFrame:  # noqa: ARG002  the writer's form
        by_key = F.hash(*(quoted(key) for key in self.keys)) if self.keys else F.monotonically_increasing_id()
        return rows.select(
            F.to_json(F.struct(*(quoted(name) for name in rows.columns)), JSON_OPTIONS).cast("binary").alias(VALUE),
            F.pmod(by_key, F.lit(self.partitions)).cast("int").alias(PARTITION),
            _headers(rows.schema).alias(HEADERS),
        )

    def _checked(self, frame: DataFrame) -> DataFrame:
        """Refuse records that this pipeline did not write, or wrote with other fields."""
        fields = [quoted(name) for name in visible(frame.columns)]
        strange = F.col(HEADERS_READ) != _headers(frame.select(*fields).schema)
        reason = F.when(F.col(HEADERS_READ).isNull() | strange, F.lit("not a record of this shuffle"))
        return frame.withColumn(REASON, F.coalesce(REASON, reason)).drop(HEADERS_READ)

    def _wait_until_gone(self, admin: Admin) -> None:
        if not _soon_over(lambda: self.topic in admin.topics([self.topic])):
            raise SinkError(f"the topic {self.topic!r} of an earlier generation could not be deleted", topic=self.topic)


def _soon_over(lasts: Callable[[], bool]) -> bool:
    """Whether a condition ends within half a minute of polling."""
    looking: Retrying = Retrying(
        retry=retry_if_result(bool), stop=stop_after_delay(PATIENCE_S), wait=wait_fixed(LOOK_S), reraise=True
    )
    with suppress(RetryError):
        looking(lasts)
        return True
    return False


def _maps(kind: DataType, name: str = "") -> Iterator[tuple[str, MapType]]:
    """All maps in a type, with the names of their fields."""
    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from _maps(each.dataType, f"{name}.{each.name}" if name else each.name)
    elif isinstance(kind, ArrayType):
        yield from _maps(kind.elementType, name)
    elif isinstance(kind, MapType):
        yield name, kind
        yield from _maps(kind.valueType, name)


def fingerprint(schema: StructType) -> str:
    """A digest of names and types, in order.

    >>> fingerprint(StructType().add("n", "long")) == fingerprint(StructType().add("n", "integer"))
    False
    """
    return hashlib.sha256(schema.simpleString().encode()).hexdigest()[:16]


def _headers(schema: StructType) -> Column:
    """The headers that identify each record's format."""
    told = {VERSION_HEADER: VERSION, SCHEMA_HEADER: fingerprint(schema)}
    pairs = [F.struct(F.lit(k).alias("key"), F.lit(v).cast("binary").alias("value")) for k, v in told.items()]
    return F.array(*pairs)
