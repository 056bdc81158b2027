"""What the sources of a pipeline hold now, split by split, also while nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from rs_assets.engine.connect.kafka.admin import connected, partitions_of
from rs_assets.engine.source.kafka.offsets import split_name
from rs_assets.engine.source.native import existing_files
from rs_assets.pipeline.topology.source import FileSource, KafkaSource, Source
from rs_assets.pipeline.topology.topology import Topology

# Splits with how far each goes: bytes of a file, the next offset of a partition.
Ends = Mapping[str, int]
# A sensor has a minute in all: brokers that do not answer are asked again at its next tick.
PATIENCE = timedelta(seconds=5)


def watched(topology: Topology) -> Sequence[Source]:
    """The sources whose splits can change or grow."""
    return [source for source in topology.sources if type(source) in ENDS and not source.bounded]


def ends_of(sources: Sequence[Source]) -> dict[str, Ends]:
    """The splits of each source with their ends; SourceReadError if a broker does not answer."""
    return {source.name: ENDS[type(source)](source) for source in sources}


def _of_files(source: FileSource) -> Ends:
    return {str(file): file.stat().st_size for file in existing_files(source.path)}


def _of_topics(source: KafkaSource) -> Ends:
    with connected(source.cluster, patience=PATIENCE) as admin:
        partitions = partitions_of(admin.topics(source.topics, source.pattern))
        ends = admin.latest(partitions, read_committed=source.read_committed)
    return {split_name(partition): ends[partition] for partition in partitions}


ENDS: Mapping[type[Source], Callable[[Any], Ends]] = MappingProxyType({FileSource: _of_files, KafkaSource: _of_topics})
