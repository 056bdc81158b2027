"""Checks against the brokers before records are sent, so that a sink fails in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.login import check_login
from rs_assets.connectors.kafka.client.names import is_internal
from rs_assets.connectors.kafka.sink.producer import cannot_be_written
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import SinkError, SourceReadError


def check_topic(cluster: KafkaCluster, shape: RecordShape, *, step: str) -> None:
    """SinkError if the brokers refuse the login, or a fixed topic does not exist.

    Topics that rows name are only known with the rows.
    """
    with asking(step, shape.topic):
        check_login(cluster)
    if shape.topic is not None:
        _ = partitions_of_topic(cluster, shape.topic, step=step)


def partitions_of_topic(cluster: KafkaCluster, topic: str, *, step: str) -> int:
    """How many partitions a topic has; SinkError if it does not exist, or this user may not describe it."""
    with asking(step, topic), connected(cluster) as admin:
        found = admin.topics([topic])
    if topic not in found:
        raise SinkError(
            f"the topic {topic!r} does not exist",
            remedy="create it, or correct its name, then start again: a sink creates no topics",
            step=step,
            topic=topic,
        )
    return len(found[topic].partitions)


def known_partitions(cluster: KafkaCluster, shape: RecordShape, step: str) -> int | None:
    """How many partitions the topic has, if rows choose their partition and the topic is fixed; else None."""
    # Topics of a shuffle are ours, and so are the partition numbers.
    if shape.partition is None or shape.topic is None or is_internal(shape.topic):
        return None
    return partitions_of_topic(cluster, shape.topic, step=step)


@contextmanager
def asking(step: str, topic: str | None) -> Iterator[None]:
    """Turn the brokers' refusal of a request into the error of the sink `step`."""
    try:
        yield
    except SourceReadError as refused:
        raise cannot_be_written(refused, step=step, topic=topic) from refused
