"""Where each source stood at the end of a batch, split by split, from Spark's own log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.shuffle.table import next_version
from rs_assets.engine.source.kafka.offsets import parse_offsets, split_name
from rs_assets.engine.source.lines.offsets import Ended, load_offsets
from rs_assets.engine.source.memory import MEMORY_SPLIT
from rs_assets.pipeline.compile.readers import ARRAY_SPLIT
from rs_assets.pipeline.topology.shuffle import ShuffleRead
from rs_assets.pipeline.topology.source import ArraySource, FileSource, KafkaSource, MemorySource, Source

# Splits and their offsets, as JSON text.
Positions = Mapping[str, str]
# A source that Spark has not asked for anything yet.
NOTHING_READ = "-"


def positions(source: Source, log: CheckpointLog, batch_id: int) -> Positions:
    """The splits of `source` at the end of batch `batch_id`, with offsets as JSON text.

    A followed file is a split for as long as it is there; a whole file is one for the batch that reads it; arrays and
    channels have one split; a partition of Kafka is one, its offset that of the next record.
    """
    offsets = log.offsets(batch_id)
    text = offsets.sources.get(source.name, NOTHING_READ) if offsets else NOTHING_READ
    return {} if text == NOTHING_READ else POSITIONS[type(source)](source, log, batch_id, text)


def _of_files(source: FileSource, log: CheckpointLog, batch_id: int, text: str) -> Positions:
    if source.tail:
        there = {name: s for name, s in load_offsets(text).items() if s.ended not in (Ended.GONE, Ended.REPLACED)}
        return {name: _json(byte=split.byte, line=split.line) for name, split in there.items()}
    planned = log.planned_files(source.name, batch_id)
    return {str(f.local): _json(bytes=f.local.stat().st_size if f.local.exists() else 0) for f in planned}


def _of_array(source: ArraySource, log: CheckpointLog, batch_id: int, text: str) -> Positions:  # noqa: ARG001
    return {ARRAY_SPLIT: text}


def _of_channel(source: MemorySource, log: CheckpointLog, batch_id: int, text: str) -> Positions:  # noqa: ARG001
    return {MEMORY_SPLIT: text}


def _of_kafka(source: Source, log: CheckpointLog, batch_id: int, text: str) -> Positions:  # noqa: ARG001
    return {split_name(partition): str(offset) for partition, offset in parse_offsets(text).items()}


def _of_table(source: ShuffleRead, log: CheckpointLog, batch_id: int, text: str) -> Positions:  # noqa: ARG001
    return {source.place: str(next_version(text))}


def _of_shuffle(source: ShuffleRead, log: CheckpointLog, batch_id: int, text: str) -> Positions:
    return SHUFFLED[source.strategy](source, log, batch_id, text)


def _json(**numbers: int) -> str:
    return orjson.dumps(numbers).decode()


# Where a shuffle lies matters to no offset, only what kind of place it is.
SHUFFLED: Mapping[str, Callable[[ShuffleRead, CheckpointLog, int, str], Positions]] = MappingProxyType(
    {"delta": _of_table, "kafka": _of_kafka}
)
POSITIONS: Mapping[type[Source], Callable[[Any, CheckpointLog, int, str], Positions]] = MappingProxyType(
    {
        FileSource: _of_files,
        ArraySource: _of_array,
        MemorySource: _of_channel,
        KafkaSource: _of_kafka,
        ShuffleRead: _of_shuffle,
    }
)
