"""Starting offsets of a source, with every partition named, as Spark's connector requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rs_assets.connectors.kafka.client.admin import Admin, connected, partitions_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import EARLIEST, Offsets
from rs_assets.errors import ConfigurationError


def first_offsets(admin: Admin, starting: object, group: str | None, ends: Offsets) -> Offsets:
    """Where a first start would begin, for the partitions that it would not read from their first record."""
    if starting == "latest":
        return ends
    if starting == "committed":
        return admin.group_offsets(str(group))
    if isinstance(starting, datetime):
        return admin.since(ends, starting)
    named = starting if isinstance(starting, Mapping) else {}
    return {(topic, number): at for topic, numbers in named.items() for number, at in numbers.items()}


def resolved(
    cluster: KafkaCluster, topics: Sequence[str], pattern: str | None, group: str | None, starting: object
) -> object:
    """`starting` with offsets for all existing partitions, if it names some or a group; else unchanged.

    Partitions without a named or committed offset begin at their first record, and so do those that no longer hold the
    committed offset. ConfigurationError for offsets of partitions that do not exist, and for named offsets that a
    partition does not hold.
    """
    if not isinstance(starting, Mapping) and starting != "committed":
        return starting
    with connected(cluster) as admin:
        there = partitions_of(admin.topics(topics, pattern))
        named = (
            {(t, p): o for t, partitions in starting.items() for p, o in partitions.items()}
            if isinstance(starting, Mapping)
            else {p: o for p, o in admin.group_offsets(str(group)).items() if p in there}
        )
        known = [partition for partition in named if partition in there]
        first, last = admin.earliest(known), admin.latest(known)
    unknown = sorted(set(named) - set(there))
    if unknown:
        raise ConfigurationError(
            f"there is no partition {unknown[0][1]} of topic {unknown[0][0]!r} to start from",
            remedy=f"the topics read have: {', '.join(f'{t}-{p}' for t, p in there) or 'no partitions'}",
        )
    outside = [p for p in sorted(first) if not first[p] <= named[p] <= last[p]]
    for topic, number in outside:
        if not isinstance(starting, Mapping):
            del named[topic, number]
            continue
        held = f"{first[topic, number]} to {last[topic, number]}"
        raise ConfigurationError(
            f"{topic}-{number} cannot be read from offset {named[topic, number]}", remedy=f"name one from {held}"
        )
    offsets: dict[str, dict[int, int]] = {}
    for topic, partition in there:
        offsets.setdefault(topic, {})[partition] = named.get((topic, partition), EARLIEST)
    return offsets or "earliest"
