"""The source of Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.kafka.client.admin import PATIENCE, connected, partitions_of
from rs_assets.connectors.kafka.registry.stored import forget_unknown, schema_folder
from rs_assets.connectors.kafka.source.dead_letters import refused_of, send_refused
from rs_assets.connectors.kafka.source.groups import GroupMirror
from rs_assets.connectors.kafka.source.infer import infer_schema
from rs_assets.connectors.kafka.source.offsets import initial_offsets, parse_offsets, range_of, split_name
from rs_assets.connectors.kafka.source.reading import KafkaReader, starting_options
from rs_assets.connectors.kafka.source.starting import first_offsets, resolved
from rs_assets.connectors.kafka.source.topics import Watched
from rs_assets.connectors.source import Ends, Follower, Known, Lag, Positions, Reading, Start, Watch, Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsReader:
    """Exactly once while Kafka keeps the records; records deleted before they were read are an error by default.

    `read` defines the records and their fields, without an inferred schema; `starting` where the first start begins.
    `group` is the consumer group in which the committed offsets are shown. `pinned`: a batch that was begun keeps its
    bad records, also if the schema registry knows more by then.
    """

    name: str
    read: KafkaReader
    starting: object = "earliest"
    group: str | None = None
    dead_letter_topic: str | None = None
    pinned: bool = False

    def stream(self, reading: Reading) -> DataFrame:
        """The records from the beginning of the first start."""
        # Spark uses it only once; later starts need not ask the brokers.
        begun = bool(initial_offsets(reading.folder / "checkpoint", reading.name))
        read = self.read
        starting = "earliest" if begun else resolved(read.cluster, read.topics, read.pattern, self.group, self.starting)
        options = starting_options(starting)
        return self._read(reading).stream(
            reading.spark, name=reading.name, starting=options, addressed=reading.positioned
        )

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The records between the offsets of a batch."""
        return self._read(reading).batch(reading.spark, *range_of(batch))

    @property
    def positioned(self) -> bool:
        """True: a record has its partition."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """A partition is a split; its offset is that of the next record."""
        return {split_name(p): str(offset) for p, offset in parse_offsets(str(batch.end)).items()}

    def check(self, start: Start) -> Known:
        """The ids of the topics; records that Kafka has lost are refused, or reported."""
        return self._watched.check(start)

    def watch(self, watching: Watching) -> Watch:
        """Each batch is compared with the current topics before it is committed."""
        watch = self._watched.watch(watching)
        described = self.read.avro or self.read.protobuf
        if described is not None and described.registry is not None:
            folder = schema_folder(watching.log.log.folder.parent, self.name)
            watch.before = partial(forget_unknown, folder, pinned=self.pinned)
        return watch

    def has_more(self, log: SourceLog) -> bool:
        """Whether a partition ends elsewhere than it was read to, or is new."""
        read = {split_name(partition): offset for partition, offset in parse_offsets(str(log.committed)).items()}
        return log.committed is None or read != self.ends(PATIENCE)

    def follower(self) -> Follower | None:
        """The mirror to the consumer group, if there is one."""
        return GroupMirror(self.read.cluster, self.group) if self.group is not None else None

    def send_dead_letters(self, reading: Reading, batch: SourceBatch, letters: pa.Table) -> None:
        """Send the records unchanged to the dead-letter topic, if there is one."""
        if self.dead_letter_topic is None:
            return
        start, end = range_of(batch)
        refused = refused_of(letters, end)
        send_refused(
            self.read.records(reading.spark, start, end),
            refused,
            cluster=self.read.cluster,
            topic=self.dead_letter_topic,
        )

    def ends(self, patience: timedelta) -> Ends:
        """The next offset of each partition."""
        with connected(self.read.cluster, patience=patience) as admin:
            partitions = partitions_of(admin.topics(self.read.topics, self.read.pattern))
            ends = admin.latest(partitions, read_committed=self.read.read_committed)
        return {split_name(partition): ends[partition] for partition in partitions}

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The number of unread records that are there, by their offsets: what compaction has removed counts, too."""
        with connected(self.read.cluster, patience=patience) as admin:
            partitions = partitions_of(admin.topics(self.read.topics, self.read.pattern))
            ends = admin.latest(partitions, read_committed=self.read.read_committed)
            begins = admin.earliest(partitions)
            begun = partial(first_offsets, admin, self.starting, self.group, ends)
            start = parse_offsets(offset) if offset is not None else begun()
        since = {partition: max(begin, start.get(partition, begin)) for partition, begin in begins.items()}
        return Lag(records=sum(max(end - since[partition], 0) for partition, end in ends.items()))

    def between(self, start: str | None, end: str) -> Lag:
        """The offsets between, also of records that were deleted; where the first batch began is not in Spark's log."""
        if start is None:
            return Lag()
        first = parse_offsets(start)
        return Lag(records=sum(until - first.get(partition, 0) for partition, until in parse_offsets(end).items()))

    @property
    def _watched(self) -> Watched:
        return Watched(
            name=self.name,
            cluster=self.read.cluster,
            topics=self.read.topics,
            pattern=self.read.pattern,
            on_data_loss=self.read.on_data_loss,
            read_committed=self.read.read_committed,
            group=self.group if self.starting == "committed" else None,
        )

    def _read(self, reading: Reading) -> KafkaReader:
        """The record reader with the declared, inferred or pinned schema, and with the place of fetched schemas."""
        folder = schema_folder(reading.folder, self.name)
        if self.read.avro is not None:
            return replace(self.read, avro=replace(self.read.avro, folder=folder))
        if self.read.protobuf is not None:
            return replace(self.read, protobuf=replace(self.read.protobuf, folder=folder))
        if self.read.form != "json":
            return self.read
        schema = reading.schema_of(lambda: infer_schema(reading.spark, self.read, step=self.name))
        return replace(self.read, schema=schema)
