"""Refuses a pipeline whose output is one of its inputs: it would read its own rows, run by run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rs_assets.common.node import Node
from rs_assets.connectors.changes.nodes import ChangesSource
from rs_assets.connectors.database.nodes import DatabaseSink, DatabaseSource
from rs_assets.connectors.delta.nodes import DeltaSink, DeltaSource
from rs_assets.connectors.files.nodes import FileSink, FileSource
from rs_assets.connectors.http.nodes import HttpSink, HttpSource
from rs_assets.connectors.kafka.nodes import KafkaSink, KafkaSource
from rs_assets.connectors.location import is_read, real_place
from rs_assets.connectors.mqtt.nodes import MqttSink, MqttSource
from rs_assets.connectors.mqtt.topics import selects
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.own.nodes import CustomSource, WriterSink
from rs_assets.connectors.redis.nodes import RedisSink, RedisSource
from rs_assets.connectors.rocketmq.nodes import RocketmqSink, RocketmqSource
from rs_assets.connectors.sqlite.nodes import SqliteSink, SqliteSource
from rs_assets.errors import TopologyError
from rs_assets.topology.targets import place_of
from rs_assets.topology.topology import Topology

Database = DatabaseSource | ChangesSource | SqliteSource | DatabaseSink | SqliteSink
DATABASES = (DatabaseSource, ChangesSource, SqliteSource, DatabaseSink, SqliteSink)

# What a source reads, in a sentence; of the others it is a table.
PLACES: Mapping[type[Node], str] = {
    CustomSource: "location",
    HttpSource: "address",
    RocketmqSource: "topic",
    RedisSource: "stream",
    MqttSource: "topic",
}


def check_places(topology: Topology) -> None:
    """TopologyError for an output that a source of the pipeline reads: its folder, table or topic, or files within.

    Symbolic links are resolved as they are now. A Delta table given by name differs from any given by path.
    """
    _check_topics(topology)
    for sink in topology.sinks:
        reader = next((source for source in topology.sources if _reads(source, sink)), None)
        if reader is None:
            continue
        if isinstance(reader, FileSource):
            raise TopologyError(
                f"step {sink.name!r} writes into the folder that the step {reader.name!r} reads: each run would read"
                " what the previous one has written",
                remedy="write into a folder next to it",
                step=sink.name,
            )
        what = PLACES.get(type(reader), "table")
        raise TopologyError(
            f"step {sink.name!r} writes the {what} that the step {reader.name!r} reads: it would read its own rows",
            remedy=f"write another {what}",
            step=sink.name,
        )


def _reads(source: Node, sink: Sink) -> bool:
    """Whether `source` reads rows that `sink` writes."""
    for read, written, meet in MEETINGS:
        if isinstance(source, read):
            return isinstance(sink, written) and meet(source, sink)
    return _reads_files(source, sink)


def _is_published_to(source: MqttSource, sink: MqttSink) -> bool:
    """Whether the source receives messages of the topic; a topic that is in a field is not known."""
    topic = sink.topic
    if topic is None or source.broker.address != sink.broker.address:
        return False
    return any(selects(wanted, topic) for wanted in source.topics)


def _is_table_of(source: Database, sink: Database) -> bool:
    """Whether both have one table; by the texts of their places if an environment variable has no value here."""
    read, written = _table_at(source), _table_at(sink)
    if read is None or written is None:
        return getattr(source, "where", None) == getattr(sink, "where", "")
    return read == written


def _table_at(node: Database) -> tuple[str, ...] | None:
    if isinstance(node, SqliteSource | SqliteSink):
        return "sqlite", real_place(node.path), node.table.lower()
    from rs_assets.connectors.database.place import table_at

    return table_at(node.url, node.table)


def _is_topic_of(source: RocketmqSource, sink: RocketmqSink) -> bool:
    """Whether both have one topic; brokers are the same if they share an address."""
    return sink.topic == source.topic and not set(source.cluster.servers).isdisjoint(sink.cluster.servers)


def _is_stream_of(source: RedisSource, sink: RedisSink) -> bool:
    """Whether the sink may add entries to a stream of the source; servers are the same if their places are."""
    if sink.structure != "stream" or sink.where != source.where:
        return False
    return any(name.startswith(sink.prefix) if sink.keys else name == sink.prefix for name in source.streams)


def _reads_files(source: Node, sink: Sink) -> bool:
    """Whether `source` reads a table or a folder that `sink` writes."""
    written = place_of(sink)
    if written is None:
        return False
    if isinstance(source, DeltaSource):
        return isinstance(sink, DeltaSink) and real_place(source.table) == written
    if isinstance(source, FileSource) and written.startswith("/"):
        sample = sink.form.sample if isinstance(sink, FileSink) else "part-0.parquet"
        return is_read(source.path, str(PurePath(written, sample)))
    return False


def _check_topics(topology: Topology) -> None:
    """Compares topics known before a record is read; brokers are the same if they share an address."""
    sources = [source for source in topology.sources if isinstance(source, KafkaSource)]
    written = [(sink, sink.cluster, sink.topic) for sink in topology.sinks if isinstance(sink, KafkaSink)]
    for step, cluster, topic in [*written, *((s, s.cluster, s.dead_letter_topic) for s in sources)]:
        near = [source for source in sources if not set(source.cluster.servers).isdisjoint(cluster.servers)]
        reader = next((source for source in near if source.reads(topic)), None)
        if topic is not None and reader is not None:
            raise TopologyError(
                f"step {step.name!r} writes to the topic {topic!r} that the step {reader.name!r} reads: it would read"
                " its own records",
                remedy="write to another topic" + (", or narrow the pattern" if reader.pattern else ""),
                step=step.name,
            )
        letters = next((s for s in near if s is not step and topic is not None and s.dead_letter_topic == topic), None)
        if letters is not None and isinstance(step, KafkaSink):
            raise TopologyError(
                f"step {step.name!r} writes to the topic {topic!r}, which has the dead letters of {letters.name!r}",
                remedy="write to another topic",
                step=step.name,
            )


def _is_location_of(source: CustomSource, sink: WriterSink) -> bool:
    return sink.writer.location() == source.place


def _is_address_of(source: HttpSource, sink: HttpSink) -> bool:
    return sink.endpoint.where == source.endpoint.where


# Sources, the sinks that they can meet, and whether these two do; all others meet in files.
MEETINGS: Sequence[tuple[Any, Any, Callable[[Any, Any], bool]]] = (
    (RocketmqSource, RocketmqSink, _is_topic_of),
    (RedisSource, RedisSink, _is_stream_of),
    (MqttSource, MqttSink, _is_published_to),
    (DATABASES, DATABASES, _is_table_of),
    (HttpSource, HttpSink, _is_address_of),
    (CustomSource, WriterSink, _is_location_of),
)
