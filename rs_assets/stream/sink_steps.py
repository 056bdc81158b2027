"""Steps that write a stream: each hangs a sink on it and returns the same stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Self

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.stream.draft import Draft, name_from
from rs_assets.topology.nodes.sink import (
    Connector,
    Delivery,
    DeltaMode,
    DeltaSink,
    FileSink,
    KafkaSink,
    MemorySink,
    PrintSink,
    WriterSink,
)
from rs_assets.topology.nodes.sqlite import SqliteSink
from rs_assets.topology.record_time import times_of

if TYPE_CHECKING:
    from rs_assets.connectors.memory import MemoryChannel
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.topology.nodes.base import Node


class SinkSteps:
    """The sinks of a stream; part of `DataStream`."""

    __slots__ = ()

    step: str
    draft: Draft

    def to_print(self, *, max_rows: int = 20, name: str = "print") -> Self:
        """Show each batch as a table on standard output."""
        return self._sink(PrintSink(name=name, inputs=(self.step,), max_rows=max_rows))

    def to_file(self, path: str | PathLike[str], *, name: str | None = None) -> Self:
        """Write JSON lines: one folder a batch below `path`, made visible by one rename."""
        where = fspath(path)
        return self._sink(FileSink(name=name or name_from(where, suffix="files"), inputs=(self.step,), path=where))

    def to_delta(
        self,
        table: str | PathLike[str],
        *,
        mode: DeltaMode = "append",
        keys: Sequence[str] = (),
        connector: Connector = "native",
        order_by: Sequence[str] = (),
        deletes: str | None = None,
        partition_by: Sequence[str] = (),
        name: str | None = None,
    ) -> Self:
        """Write to a Delta table: a name below RS_HOME, or a path.

        `append` adds rows, `upsert` replaces rows of the same `keys`, `complete` (behind a tumbling or hopping window)
        holds all windows as they are after each batch. A repeated batch changes nothing.

        Of rows of the same keys the greatest by the fields `order_by` stays, whenever it comes; without `order_by` the
        one that was read last: of the newer file, in it the later line. Where the boolean field `deletes` is true, the
        row of its keys goes and none is put in its place; the table does not remember that it was there, so an older
        row that comes later is taken for a new one. `partition_by` makes the partitions of a table that is not there
        yet.
        """
        where = fspath(table)
        node = DeltaSink(
            name=name or name_from(where, suffix="table"),
            inputs=(self.step,),
            table=where,
            mode=mode,
            keys=(keys,) if isinstance(keys, str) else tuple(keys),
            connector=connector,
            order_by=(order_by,) if isinstance(order_by, str) else tuple(order_by),
            deletes=deletes,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
        )
        return self._sink(node)

    def to_kafka(
        self,
        bootstrap_servers: str | KafkaCluster,
        topic: str | None = None,
        *,
        topic_field: str | None = None,
        key: str | None = None,
        value: str | None = None,
        partition: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        delivery: Delivery = "at_least_once",
        options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Write records to `topic`, or to the one that each row names in `topic_field`; the topics must be there.

        The value is a JSON object of all fields, or the field `value` as it is (text or binary; null is a tombstone).
        `key` decides the partition as Java's clients do it, unless the field `partition` holds its number. `headers` is
        a map of text, or an array of structs of key and value.

        `timestamp` is the field with the time of the record, a timestamp. Without it a row of a window has its end
        (`end_time`), another one the event time of the last step that has one, else the `kafka_timestamp` that it was
        read with, as far as these fields are still there and not later than the clock. What has none of them, or one
        that is null or before 1970, has the time at which it is sent; `describe()` names the fields. A topic with
        `message.timestamp.type=LogAppendTime` has its broker's times. Retention goes by the time of records, so what is
        older than it allows is soon deleted.

        "at_least_once" sends from Spark's tasks; a repeated batch is sent again. "exactly_once" sends each batch in a
        transaction that notes the batch too (in the compacted topic rs-assets-commits): readers with
        `isolation.level=read_committed` see it once. On one machine tasks send it, in parallel; on a cluster the driver
        collects it and sends row after row, so limit the rows of a batch there. `options` are settings of the producer
        by their Java names: `{"compression.type": "gzip"}`. SinkError before the start if the topic is not there.

        >>> from rs_assets import StreamBuilder
        >>> stream = StreamBuilder.data_stream("shop", "copy").from_kafka("localhost:9092", "in", format="text")
        >>> stream.to_kafka("localhost:9092", "out", value="value", delivery="exactly_once").build().name
        'shop.copy'
        """
        node = KafkaSink(
            name=name or name_from(topic or str(topic_field), suffix="topic"),
            inputs=(self.step,),
            cluster=KafkaCluster.of(bootstrap_servers),
            topic=topic,
            topic_field=topic_field,
            key=key,
            value=value,
            partition=partition,
            headers=headers,
            timestamp=timestamp,
            times=times_of(self.draft.leading_to(self.step), self.step),
            delivery=delivery,
            options=dict(options or {}),
        )
        return self._sink(node)

    def to_sqlite(self, path: str | PathLike[str], table: str, *, name: str | None = None) -> Self:
        """Add the rows to a table of SQLite, exactly once: a batch and its marker are one transaction.

        Database and table are made if they are not there; a table that is there may have more columns. Times are text
        (ISO 8601, UTC), nested fields JSON. A batch passes through the driver, so limit its rows. The rows cannot be
        taken back: the pipeline goes back only to where nothing was written since, and a new generation is refused
        until the table is empty.

        >>> from rs_assets import StreamBuilder
        >>> stream = StreamBuilder.data_stream("shop", "late").from_array([{"page": "/a", "ms": 120}])
        >>> stream.to_sqlite("shop.db", "slow_pages").build().name
        'shop.late'
        """
        step = name or name_from(table, suffix="table")
        return self._sink(SqliteSink(name=step, inputs=(self.step,), path=fspath(path), table=table))

    def to_memory(self, channel: MemoryChannel, *, name: str = "collect") -> Self:
        """Collect the rows into `channel` of this process."""
        return self._sink(MemorySink(name=name, inputs=(self.step,), channel=channel))

    def to(self, sink: SinkWriter, *, name: str = "sink") -> Self:
        """Write the rows by an object of your own, which stages and commits batches (rs_assets.sinks.SinkWriter).

        If it has a method `on_system_message`, it is told of splits and checkpoints in order, and can flush first.
        """
        return self._sink(WriterSink(name=name, inputs=(self.step,), writer=sink))

    def _sink(self, node: Node) -> Self:
        raise NotImplementedError
