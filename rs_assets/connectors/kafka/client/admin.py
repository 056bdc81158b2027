"""Cluster queries besides reading records: topics, offsets, consumer groups."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.login import check_login
from rs_assets.connectors.kafka.client.names import is_internal
from rs_assets.errors import RsError, SourceReadError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

# How long to wait for a first answer of a broker before a start fails.
PATIENCE = timedelta(seconds=30)
# How often to try an unreachable broker again, in seconds.
LOOK_S = 0.2
# How long a request is repeated while Kafka answers "not now".
RETRY_FOR = timedelta(seconds=30)

Partition = tuple[str, int]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Topic:
    """The current state of a topic. A topic that was deleted and created again has another `id`."""

    name: str
    id: str
    partitions: tuple[int, ...]


@contextmanager
def connected(cluster: KafkaCluster, *, patience: timedelta = PATIENCE) -> Iterator[Admin]:
    """A client for the block. SourceReadError, with the addresses and the cause, if no broker answers in `patience`.

    Brokers that answer but refuse the login are an error at once.
    """
    with kafka_errors(cluster):
        from kafka import KafkaAdminClient

        began = time.monotonic()
        _await_socket(cluster, patience)
        check_login(cluster, patience=patience)
        left = max(patience - timedelta(seconds=time.monotonic() - began), timedelta(seconds=1))
        milliseconds = left // timedelta(milliseconds=1)
        client = KafkaAdminClient(
            **cluster.for_python(),
            client_id="rs-assets",
            bootstrap_timeout_ms=milliseconds,
            request_timeout_ms=max(milliseconds, 1000),
        )
    try:
        with kafka_errors(cluster):
            yield Admin(client, cluster)
    finally:
        client.close()


def _await_socket(cluster: KafkaCluster, patience: timedelta) -> None:
    """Wait until one of the addresses accepts a connection: a client that finds none leaves its sockets open."""
    until = time.monotonic() + patience.total_seconds()
    while True:
        for server in cluster.servers:
            host, _, port = server.rpartition(":")
            left = max(until - time.monotonic(), LOOK_S)
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=left).close()
            except OSError as error:
                reason = error.strerror or str(error) or type(error).__name__
            else:
                return
        if time.monotonic() >= until:
            raise SourceReadError(
                f"no broker can be reached: {reason}",
                remedy="check that the brokers run and the addresses are right, then start again: nothing was written",
                brokers=",".join(cluster.servers),
            )
        time.sleep(LOOK_S)


@contextmanager
def kafka_errors(cluster: KafkaCluster) -> Iterator[None]:
    """Turn errors of kafka-python in the block into SourceReadError; project errors pass."""
    from kafka.errors import KafkaError

    try:
        yield
    except RsError:
        raise
    except (KafkaError, OSError) as error:
        raise SourceReadError(
            f"Kafka does not answer as expected: {type(error).__name__}: {str(error)[:300]}",
            remedy=REMEDIES.get(type(error).__name__, UNKNOWN),
            brokers=",".join(cluster.servers),
        ) from error


UNKNOWN = "check that the brokers run and the credentials are valid, then start again: nothing was written"
REMEDIES: Mapping[str, str] = {
    "TopicAuthorizationFailedError": "let this user describe and read the topic, or create it if it does not exist",
    "GroupAuthorizationFailedError": "let this user describe and read the consumer group",
    "ClusterAuthorizationFailedError": "let this user create topics, or make them beforehand",
}


class Admin:
    """Queries to one cluster; made by `connected`."""

    def __init__(self, client: KafkaAdminClient, cluster: KafkaCluster) -> None:
        self.client = client
        self.cluster = cluster

    def answered(self, question: Callable[[], Answer]) -> Answer:
        """The answer to `question`, for clients that outlive a block; SourceReadError if there is none."""
        with kafka_errors(self.cluster):
            return question()

    def topics(self, names: Iterable[str] = (), pattern: str | None = None) -> dict[str, Topic]:
        """The topics of these names, or those whose whole name matches `pattern`; missing ones are left out.

        KafkaError for a name that this user may not describe.
        """
        from kafka.errors import TopicAuthorizationFailedError

        wanted, matches = set(names), re.compile(pattern) if pattern is not None else None
        found: dict[str, Topic] = {}
        # A cluster may have thousands of topics: only a pattern lists all of them.
        for facts in self.client.describe_topics(sorted(wanted) if matches is None else None):
            name = facts["name"]
            if name in wanted and facts["error_code"] == TopicAuthorizationFailedError.errno:
                raise TopicAuthorizationFailedError(name)
            if facts["error_code"] or not (name in wanted or (matches and _matched(matches, name))):
                continue
            numbers = tuple(sorted(p["partition_index"] for p in facts["partitions"]))
            found[name] = Topic(name, str(facts["topic_id"]), numbers)
        return dict(sorted(found.items()))

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset of the first record that each partition still has."""
        return self._offsets(partitions, EARLIEST)

    def latest(self, partitions: Iterable[Partition], *, read_committed: bool = False) -> dict[Partition, int]:
        """The offset after the last record; with `read_committed` after the last one without an open transaction."""
        return self._offsets(partitions, LATEST, read_committed=read_committed)

    def since(self, ends: Mapping[Partition, int], moment: datetime) -> dict[Partition, int]:
        """The offset of the first record of that time or later in each partition; its end if there is none."""
        found = self._offsets(ends, int(moment.timestamp() * 1000))
        return {partition: at if at >= 0 else ends[partition] for partition, at in found.items()}

    def group_offsets(self, group: str) -> dict[Partition, int]:
        """The committed offsets of the consumer group; a negative offset means none and is left out."""
        found = _patiently(lambda: self.client.list_group_offsets({group: None})).get(group, {})
        return {(tp.topic, tp.partition): at.offset for tp, at in found.items() if at.offset >= 0}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set the committed offsets of a group without members; KafkaError if it has some."""
        from kafka.structs import OffsetAndMetadata

        made = {_tp(p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
        answers = _patiently(lambda: self.client.alter_group_offsets(group, made))
        for refusal in answers.values():
            if getattr(refusal, "errno", 0):
                raise refusal(f"group {group!r}")

    def create_topic(self, name: str, *, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic; an existing one is not changed."""
        from kafka.errors import TopicAlreadyExistsError

        try:
            self.client.create_topics({name: {"num_partitions": partitions, "configs": dict(settings)}})
        except TopicAlreadyExistsError:
            return

    def setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic; None if this user may not read it."""
        from kafka.admin import ConfigResource, ConfigResourceType

        asked = ConfigResource(ConfigResourceType.TOPIC, topic, [name])
        found = self.client.describe_configs([asked], config_filter="all").get("topic", {}).get(topic, {})
        return str(found[name]["value"]) if name in found else None

    def change_setting(self, topic: str, name: str, value: str) -> str:
        """Change a setting of a topic; returns the brokers' objection, "" if there is none."""
        from kafka.admin import ConfigResource, ConfigResourceType

        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        answer = self.client.alter_configs([wanted], raise_on_unknown=False)["topic"][topic]
        return "" if answer == "OK" else str(answer)

    def delete_records(self, until: Mapping[Partition, int]) -> None:
        """Delete the records before these offsets."""
        self.client.delete_records({_tp(p): offset for p, offset in until.items()})

    def _offsets(
        self, partitions: Iterable[Partition], spec: int, *, read_committed: bool = False
    ) -> dict[Partition, int]:
        from kafka.protocol.consumer import IsolationLevel

        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        wanted: dict[Any, int] = {_tp(p): spec for p in partitions}
        if not wanted:
            return {}
        found = self.client.list_partition_offsets(wanted, isolation_level=level)
        return {(tp.topic, tp.partition): at.offset for tp, at in found.items()}


# The offsets that mean "first" and "last" in Kafka's protocol.
EARLIEST, LATEST = -2, -1


def partitions_of(topics: Mapping[str, Topic]) -> list[Partition]:
    """All partitions of these topics, in order.

    >>> partitions_of({"orders": Topic("orders", "", (0, 1))})
    [('orders', 0), ('orders', 1)]
    """
    return [(topic.name, number) for topic in topics.values() for number in topic.partitions]


def _patiently(question: Callable[[], Answer]) -> Answer:
    """Repeat a request while Kafka may answer it later: groups have no coordinator before their first use."""
    retrying: Retrying = Retrying(
        retry=retry_if_exception(lambda error: bool(getattr(error, "retriable", False))),
        stop=stop_after_delay(RETRY_FOR),
        wait=wait_exponential(0.05, max=1),
        reraise=True,
    )
    return retrying(question)


def _matched(pattern: re.Pattern[str], name: str) -> bool:
    return not is_internal(name) and pattern.fullmatch(name) is not None


def _tp(partition: Partition) -> TopicPartition:
    from kafka import TopicPartition

    return TopicPartition(*partition)
