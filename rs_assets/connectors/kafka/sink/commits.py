"""The commit topic: a compacted topic whose last record for each pipeline and sink names the last committed batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from rs_assets.connectors.commits import Commit, key_of
from rs_assets.connectors.kafka.client.admin import Admin, connected, kafka_errors
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import COMMITS as TOPIC
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import SinkError

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

# Small segments: only closed ones are compacted, and each start reads the rest.
POLICY, COMPACT = "cleanup.policy", "compact"
SETTINGS: Mapping[str, str] = {
    POLICY: COMPACT,
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
POLL_MS = 200
# If a topic sends no record for this long and its end is not reached either, reading it has failed.
PATIENCE = timedelta(seconds=30)
# How often to look for a hidden commit record, in seconds.
LOOK_S = 0.2
# Whether a record is the requested one.
Wanted = Callable[[Any], bool]


def last_writer_of(cluster: KafkaCluster, mark: BatchMark, topic: str) -> LastWriter:
    """The last writer of the mark's pipeline: by its id, or by its name and `topic`, as for a home that was lost."""
    with connected(cluster) as admin:
        if TOPIC not in admin.topics([TOPIC]):
            return LastWriter()
    by_id = key_of(mark)
    by_name = orjson.dumps({"topic": topic, "claimed": mark.claimed})[1:-1]

    def named(record: Any) -> bool:
        return bool(record.key == by_id or (mark.claim and by_name in (record.value or b"")))

    found = LastWriter()
    for value in _last_values(cluster, named):
        commit = _parsed(value, mark)
        if commit is not None:
            token = max(found.token, commit.token)
            found = LastWriter(token=token, claim=commit.claim, pipeline_id=commit.pipeline_id, home=commit.home)
    return found


def ensure_topic(admin: Admin) -> None:
    """Create the topic if it does not exist; an existing one is set to keep the last record of each key.

    SinkError if its records may be deleted and this user may not change that.
    """
    if TOPIC not in admin.topics([TOPIC]):
        admin.create_topic(TOPIC, partitions=1, settings=SETTINGS)
        return
    policy = admin.setting(TOPIC, POLICY)
    refusal = admin.change_setting(TOPIC, POLICY, COMPACT) if policy not in (None, COMPACT) else ""
    if refusal:
        raise SinkError(
            f"the topic {TOPIC!r} deletes commit records ({POLICY}={policy}): {refusal}",
            remedy=f"set it to {COMPACT}: kafka-configs.sh --bootstrap-server ... --alter --entity-type topics"
            f" --entity-name {TOPIC} --add-config {POLICY}={COMPACT}",
            topic=TOPIC,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """The content of the commit topic: the last commit, and a later record that is not yet known to be committed.

    The topic is shared. An open transaction of another pipeline, until it ends or times out, hides later commits of all
    others.
    """

    commit: Commit | None = None
    hidden: Commit | None = None


def last_commit(cluster: KafkaCluster, mark: BatchMark) -> LastCommit:
    """The last commit of the mark's sink; records of open and aborted transactions do not count."""
    with connected(cluster) as admin:
        if TOPIC not in admin.topics([TOPIC]):
            return LastCommit()
    by_id = key_of(mark)
    found, hidden = _last_values(cluster, lambda record: bool(record.key == by_id))
    return LastCommit(commit=_parsed(found, mark), hidden=_parsed(hidden, mark))


def _parsed(value: bytes | None, mark: BatchMark) -> Commit | None:
    try:
        return None if value is None else Commit(**orjson.loads(value))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise SinkError(
            f"the record of {mark.fence!r} in topic {TOPIC!r} is damaged",
            remedy="another program writes to that topic: it is reserved for this project",
            topic=TOPIC,
        ) from error


def settled_commit(cluster: KafkaCluster, mark: BatchMark) -> Commit | None:
    """The last commit of the mark's sink, whose own transactions must all have ended.

    Waits while others hide it, as a batch must not be sent twice: SinkError if that takes longer than PATIENCE.
    """
    looking: Retrying = Retrying(
        retry=retry_if_result(lambda noted: noted.hidden is not None),
        stop=stop_after_delay(PATIENCE),
        wait=wait_fixed(LOOK_S),
    )
    try:
        return looking(last_commit, cluster, mark).commit
    except RetryError as error:
        raise SinkError(
            "an open transaction of another pipeline hides the last commit",
            remedy="start that pipeline again, which ends it, or wait: it times out in 15 minutes at most",
            topic=TOPIC,
            sink=mark.sink,
        ) from error


def _last_values(cluster: KafkaCluster, wanted: Wanted) -> tuple[bytes | None, bytes | None]:
    """The last committed wanted value, and the last one after all decided transactions."""
    from kafka import TopicPartition

    partition = TopicPartition(TOPIC, 0)
    with kafka_errors(cluster):
        with _consumer(cluster, partition, "read_committed") as consumer:
            consumer.seek_to_beginning(partition)
            stable = consumer.end_offsets([partition])[partition]
            found = _last_of(consumer, partition, wanted, stable)
        with _consumer(cluster, partition, "read_uncommitted") as consumer:
            end = consumer.end_offsets([partition])[partition]
            if end <= stable:
                return found, None
            consumer.seek(partition, stable)
            return found, _last_of(consumer, partition, wanted, end)


@contextmanager
def _consumer(cluster: KafkaCluster, partition: TopicPartition, isolation: str) -> Iterator[KafkaConsumer]:
    from kafka import KafkaConsumer

    consumer: Any = KafkaConsumer(
        **cluster.for_python(), isolation_level=isolation, enable_auto_commit=False, group_id=None
    )
    try:
        consumer.assign([partition])
        yield consumer
    finally:
        consumer.close()


def _last_of(consumer: KafkaConsumer, partition: TopicPartition, wanted: Wanted, end: int) -> bytes | None:
    found: bytes | None = None
    idle_ms = 0
    while consumer.position(partition) < end:
        records = consumer.poll(timeout_ms=POLL_MS).get(partition, [])
        found = next((r.value for r in reversed(records) if wanted(r)), found)
        idle_ms = 0 if records else idle_ms + POLL_MS
        if idle_ms > PATIENCE // timedelta(milliseconds=1):
            raise SinkError("the topic of commits cannot be read to its end", topic=TOPIC)
    return found
