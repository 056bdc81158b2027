"""What is asked of the brokers before records are sent, so that a sink says in seconds what it would fail on."""

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
    """SinkError if the brokers do not let us in, or a topic that is fixed is not there.

    Topics that rows name are known only with the rows.
    """
    with asking(step, shape.topic):
        check_login(cluster)
    if shape.topic is not None:
        _ = partitions_of_topic(cluster, shape.topic, step=step)


def partitions_of_topic(cluster: KafkaCluster, topic: str, *, step: str) -> int:
    """How many partitions a topic has; SinkError if it is not there, or may not be asked for."""
    with asking(step, topic), connected(cluster) as admin:
        found = admin.topics([topic])
    if topic not in found:
        raise SinkError(
            f"the topic {topic!r} is not there",
            remedy="make it, or correct its name, then start again: a sink makes no topics",
            step=step,
            topic=topic,
        )
    return len(found[topic].partitions)


def known_partitions(cluster: KafkaCluster, shape: RecordShape, step: str) -> int | None:
    """How many partitions the topic has, if rows say to which of them they go and the topic is fixed; else None."""
    # Those of a shuffle are ours, and so are the numbers.
    if shape.partition is None or shape.topic is None or is_internal(shape.topic):
        return None
    return partitions_of_topic(cluster, shape.topic, step=step)


@contextmanager
def asking(step: str, topic: str | None) -> Iterator[None]:
    """Turn what brokers refuse whoever asks them into the error of the sink `step`."""
    try:
        yield
    except SourceReadError as refused:
        raise cannot_be_written(refused, step=step, topic=topic) from refused
