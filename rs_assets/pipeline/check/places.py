"""Where a pipeline reads and where it writes: a place that is both would feed it its own rows, run by run."""

from __future__ import annotations

from pathlib import Path

from rs_assets.engine.project import anchored
from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.delta import DeltaSource
from rs_assets.pipeline.topology.sink import DeltaSink, FileSink, KafkaSink
from rs_assets.pipeline.topology.source import FileSource, KafkaSource
from rs_assets.pipeline.topology.topology import Topology


def check_places(topology: Topology) -> None:
    """TopologyError for files that are written into a folder that a source reads, and for a table or topic that is."""
    _check_tables(topology)
    _check_topics(topology)
    read = [(source, Path(source.path)) for source in topology.sources if isinstance(source, FileSource)]
    for sink in topology.sinks:
        if not isinstance(sink, FileSink):
            continue
        written = Path(anchored(sink.path))
        reader = next((source for source, place in read if written.is_relative_to(place)), None)
        if reader is not None:
            raise TopologyError(
                f"step {sink.name!r} writes into the folder that the step {reader.name!r} reads: each run would read"
                " what the one before has written",
                remedy="write into a folder beside it",
                step=sink.name,
            )


def _check_tables(topology: Topology) -> None:
    read = {source.table: source for source in topology.sources if isinstance(source, DeltaSource)}
    for sink in topology.sinks:
        if not isinstance(sink, DeltaSink):
            continue
        reader = read.get(anchored(sink.table) if "/" in sink.table else sink.table)
        if reader is not None:
            raise TopologyError(
                f"step {sink.name!r} writes the table that the step {reader.name!r} reads: it would read its own rows",
                remedy="write another table",
                step=sink.name,
            )


def _check_topics(topology: Topology) -> None:
    """Of the topics that are known before a record is read; brokers are the same if an address of them is."""
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
