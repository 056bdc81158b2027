"""Offsets of Kafka topics in the form of Spark's connector: `{"orders": {"0": 17, "1": 4}}`, the next to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.errors import CheckpointError

# A partition of a topic, and its offsets.
Partition = tuple[str, int]
Offsets = Mapping[Partition, int]
# The value of Spark's connector for "from the first existing record".
EARLIEST = -2


def parse_offsets(text: str) -> dict[Partition, int]:
    """Offsets by partition; CheckpointError if `text` is not valid.

    >>> parse_offsets('{"orders": {"1": 4, "0": 17}}')
    {('orders', 0): 17, ('orders', 1): 4}
    """
    try:
        found = {(t, int(p)): int(o) for t, parts in orjson.loads(text).items() for p, o in parts.items()}
    except (orjson.JSONDecodeError, AttributeError, ValueError, TypeError) as error:
        raise CheckpointError(f"{text[:100]!r} is not a set of Kafka offsets") from error
    return dict(sorted(found.items()))


def dump_offsets(offsets: Offsets) -> str:
    """The text for Spark's connector.

    >>> dump_offsets({("orders", 0): 17})
    '{"orders":{"0":17}}'
    """
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return orjson.dumps(topics).decode()


def split_name(partition: Partition) -> str:
    """The name of a split.

    >>> split_name(("orders", 0))
    'orders-0'
    """
    return f"{partition[0]}-{partition[1]}"


def initial_offsets(checkpoint: Path, source: str) -> dict[Partition, int]:
    """The offsets of the source's first batch, as the connector stored them; empty if it has not."""
    path = checkpoint / "sources" / source / "0"
    if not path.is_file():
        return {}
    # A version, or only a zero byte in old files, precedes the offsets.
    text = path.read_bytes().lstrip(b"\0")
    return parse_offsets(text[max(text.find(b"{"), 0) :].decode(errors="replace"))


def range_of(batch: SourceBatch) -> tuple[Offsets, Offsets]:
    """The offsets of a source's partitions before and after a planned batch."""
    start, end = batch.start, batch.end
    first = initial_offsets(batch.log.log.folder, batch.log.stored_name) if start is None else parse_offsets(start)
    return first, ({} if end is None else parse_offsets(end))


def ranges(start: Offsets, end: Offsets) -> Iterator[tuple[Partition, int, int]]:
    """What a batch from `start` to `end` reads: partition, first offset and the offset after the last.

    A partition that is new in `end` is read from its first record (EARLIEST).
    """
    for partition, until in sorted(end.items()):
        yield partition, start.get(partition, EARLIEST), until
