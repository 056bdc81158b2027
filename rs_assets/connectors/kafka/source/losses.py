"""Finds records that Kafka deleted before they were read, by comparing offsets and topic ids with what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rs_assets.connectors.kafka.client.admin import Admin, Partition, Topic, partitions_of
from rs_assets.connectors.kafka.source.offsets import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of one partition from `start` up to, but not including, `end` (None: the number is unknown).

    `resume` is where reading can continue: None if Spark continues by itself, else a current offset of the topic.
    """

    topic: str
    partition: int
    start: int
    end: int | None
    why: str
    resume: int | None = None

    def __str__(self) -> str:
        upto = "an unknown end" if self.end is None else str(self.end - 1)
        return f"{self.topic}-{self.partition}: offsets {self.start} to {upto} ({self.why})"


def losses(admin: Admin, *, topics: Mapping[str, Topic], ids: Mapping[str, str], read: Offsets) -> list[Loss]:
    """Records that can no longer be read from partitions that were read up to `read`.

    `topics` are the current topics, `ids` their previous ids; a topic without a known id is assumed to be the same.
    """
    there = set(partitions_of(topics))
    known = {p: offset for p, offset in read.items() if p in there}
    first, last = admin.earliest(known), admin.latest(known)
    found = [
        Loss(topic=topic, partition=number, start=offset, end=None, why="the partition is gone")
        for (topic, number), offset in read.items()
        if (topic, number) not in there
    ]
    for partition, offset in known.items():
        loss = _lost(partition, offset, first[partition], last[partition], again=_made_again(partition, topics, ids))
        found += [loss] if loss is not None else []
    return found


def _made_again(partition: Partition, topics: Mapping[str, Topic], ids: Mapping[str, str]) -> bool:
    topic = partition[0]
    return topic in ids and ids[topic] != topics[topic].id


def _lost(partition: Partition, offset: int, first: int, last: int, *, again: bool) -> Loss | None:
    topic, number = partition
    if again:
        why = "the topic was deleted and created again"
        return Loss(topic=topic, partition=number, start=offset, end=None, why=why, resume=first)
    if last < offset:
        why = f"the partition ends at {last}"
        return Loss(topic=topic, partition=number, start=last, end=offset, why=why, resume=first)
    if first > offset:
        return Loss(topic=topic, partition=number, start=offset, end=first, why="deleted before they were read")
    return None
