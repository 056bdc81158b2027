"""The source of a RocketMQ topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.infer import json_schema
from rs_assets.connectors.own.plan import dumped, loaded
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.rocketmq.client.client import Client, connected
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.client.names import TOOLS, Queue
from rs_assets.connectors.rocketmq.client.pulling import ALL, LOST, Filter, Reach, messages
from rs_assets.connectors.rocketmq.source.decoding import decoded
from rs_assets.connectors.rocketmq.source.groups import GroupMirror
from rs_assets.connectors.rocketmq.source.plan import EXTRAS, Starting, TopicPlan, check_there, queues_of
from rs_assets.connectors.source import Ends, Follower, Known, Lag, Positions, Reading, Start, sealed_error
from rs_assets.errors import DataLossError, SourceReadError

PATIENCE: Final = timedelta(seconds=30)
# How many messages of each queue a schema is inferred from.
SAMPLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReader:
    """Exactly once while the brokers keep the messages; messages that are gone before they were read are an error.

    `group` is the consumer group in which the committed offsets are shown, and by which messages are pulled.
    """

    name: str
    cluster: RocketMQCluster
    topic: str
    selected: Filter = ALL
    group: str | None = None
    form: str = "json"
    metadata: tuple[str, ...] = ()
    starting: Starting = "earliest"
    max_rows_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The messages from the beginning of the first start."""
        schema, form = self._schema(reading), self._registered(reading)
        reader = reading.spark.readStream.name(reading.name).format(form)
        if self.max_rows_per_batch is not None:
            reader = reader.option("max_rows_per_batch", self.max_rows_per_batch)
        return self._decoded(reader.load(), schema, addressed=reading.positioned)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The messages between the offsets of a batch; the line is the offset."""
        schema, form = self._schema(reading), self._registered(reading)
        start, end = (orjson.dumps(dumped(loaded(text))).decode() for text in (batch.start, batch.end))
        rows = reading.spark.read.format(form).option("start", start).option("end", end).load()
        return self._decoded(rows, schema, addressed=True)

    @property
    def positioned(self) -> bool:
        """True: a message has its queue, and its offset is its position."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """A queue is a split; its offset is that of the next message."""
        return {split: str(at.next) for split, at in loaded(batch.end).items()}

    def check(self, start: Start) -> Known:
        """Each queue must be there, not end before what was read of it, and still have what was not read."""
        with connected(self.cluster, SourceReadError, patience=PATIENCE) as client:
            known = {split for log in start.logs for split in loaded(log.committed)}
            queues = queues_of(client, self.topic, known)
            ends = {str(queue): client.end(self.topic, queue) for queue in queues}
            for log in start.logs:
                read = loaded(log.committed)
                check_there(self.topic, read, ends)
                self._check_kept(client, {split: at.next for split, at in read.items()})
                if start.sealed and any(end > (read[s].next if s in read else 0) for s, end in ends.items()):
                    raise sealed_error(self.name)
        return start.known

    def follower(self) -> Follower | None:
        """The mirror to the consumer group, if there is one."""
        return GroupMirror(self.cluster, self.topic, self.group) if self.group is not None else None

    def ends(self, patience: timedelta) -> Ends:
        """The next offset of each queue."""
        with connected(self.cluster, SourceReadError, patience=patience) as client:
            return {str(queue): client.end(self.topic, queue) for queue in queues_of(client, self.topic)}

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The number of unread messages, before a filter."""
        read = loaded(offset)
        with connected(self.cluster, SourceReadError, patience=patience) as client:
            ends = {str(queue): client.end(self.topic, queue) for queue in queues_of(client, self.topic)}
            since = {s: read[s].next if s in read else client.begin(self.topic, Queue.of(s)) for s in ends}
        return Lag(records=sum(max(0, end - since[split]) for split, end in ends.items()))

    def _check_kept(self, client: Client, read: dict[str, int]) -> None:
        for split, offset in read.items():
            begin = client.begin(self.topic, Queue.of(split))
            if begin > offset:
                raise DataLossError(
                    f"messages of the topic {self.topic!r} were deleted before they were read",
                    remedy=LOST,
                    source=self.name,
                    queue=split,
                    range=f"offsets {offset} to {begin - 1}",
                )

    def _registered(self, reading: Reading) -> str:
        extras = tuple(name for name in EXTRAS if self.form == "raw" or name in self.metadata)
        plan = TopicPlan(
            access=self.cluster.access(),
            topic=self.topic,
            selected=self.selected,
            group=self.group,
            starting=self.starting,
            extras=extras,
        )
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}", ddl=plan.ddl)

    def _decoded(self, rows: DataFrame, schema: StructType | None, *, addressed: bool) -> DataFrame:
        return decoded(rows, self.topic, self.form, schema, self.metadata, addressed=addressed)

    def _schema(self, reading: Reading) -> StructType | None:
        """The declared, inferred or pinned schema; None for formats with fixed fields."""
        return reading.schema_of(lambda: self._inferred(reading.spark)) if self.form == "json" else None

    def _inferred(self, spark: SparkSession) -> StructType:
        """The schema of the first messages of each queue; ConfigurationError if none of them is JSON."""
        texts = [*self._sample()]
        return json_schema(spark, texts, step=self.name, where="the topic contains")

    def _sample(self) -> Iterator[str]:
        with connected(self.cluster, SourceReadError) as client:
            for queue in queues_of(client, self.topic):
                begin, end = client.begin(self.topic, queue), client.end(self.topic, queue)
                reach = Reach(self.topic, queue, begin, min(begin + SAMPLE, end))
                for found in messages(client, reach, self.selected, self.group or TOOLS):
                    yield from (message.body.decode(errors="replace") for message in found)
