"""The commit topic: a compacted topic whose last record for each pipeline and sink names the last committed batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.kafka.client.admin import Admin, connected, kafka_errors
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import COMMITS as TOPIC
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import LeaseLostError, SinkError

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
# `Commit.sent` of a topic that never got a record.
NOTHING = (0, -1)
# How often to look for a hidden commit record, in seconds.
LOOK_S = 0.2
# Whether a record is the requested one.
Wanted = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The last batch that a sink got, and the fencing token and the claim of the driver that sent it to `topic`.

    `sent` is the last batch that had records. `returns` are the starting points of the generations since then, for all
    of which the topic has the same content. Both are missing in commit records of earlier releases.
    """

    generation: int
    batch_id: int
    token: int
    rows: int
    sent: tuple[int, int] | None = None
    returns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    topic: str = ""
    claimed: str = ""
    claim: int = 0
    home: str = ""
    pipeline_id: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Generation and batch: grows with every commit of a sink."""
        return self.generation, self.batch_id

    def why_not(self, kept: Point, had: int) -> str | None:
        """Why the topic does not hold just the batches up to `kept`, None if it does; see `Rewinding` for `had`."""
        sent = Point(*(self.sent or self.place))
        path = Lineage({int(g): Point(*began) for g, began in self.returns.items()}).path(kept)
        if sent.batch >= 0 and path.get(sent.generation, -1) < sent.batch:
            return (
                f"batch {sent.batch} of generation {sent.generation} is in the topic and cannot be removed:"
                f" it does not lead to batch {kept.batch} of generation {kept.generation}"
            )
        if kept.generation == self.generation and min(kept.batch, had) > self.batch_id:
            return f"the last committed batch is {self.batch_id}, and the pipeline had sent batch {had}"
        return None

    def dumped(self) -> bytes:
        """The value of the commit record."""
        return orjson.dumps(asdict(self))

    def last_batch(self, mark: BatchMark) -> int:
        """The last batch of the mark's generation, -1 for none.

        LeaseLostError if a driver with a newer token, of another home, or of a later generation has written since.
        """
        mark.check(LastWriter(token=self.token, claim=self.claim, home=self.home), where=mark.sink)
        if self.generation > mark.generation:
            raise LeaseLostError(
                "another driver has taken over and written since",
                remedy="nothing to do: this run ends here, the other one goes on",
                sink=mark.sink,
                token=mark.token,
                newer_token=self.token,
            )
        return self.batch_id if self.generation == mark.generation else -1


def noted(mark: BatchMark, rows: int, topic: str = "") -> Commit:
    """The commit record of a batch with records for `topic`."""
    place = (mark.generation, mark.batch_id)
    made = Commit(generation=mark.generation, batch_id=mark.batch_id, token=mark.token, rows=rows, sent=place)
    return _claimed(made, mark, topic)


def _claimed(note: Commit, mark: BatchMark, topic: str) -> Commit:
    claim = mark.claim
    if claim is None:
        return replace(note, topic=topic)
    return replace(
        note, topic=topic, claimed=mark.claimed, claim=claim.number, home=claim.home, pipeline_id=mark.pipeline_id
    )


def noted_return(last: Commit | None, kept: BatchMark, begun: BatchMark, topic: str = "") -> Commit:
    """The commit record of a return, which sends nothing."""
    made = Commit(
        generation=begun.generation,
        batch_id=begun.batch_id,
        token=begun.token,
        rows=0,
        sent=(last.sent or last.place) if last else NOTHING,
        returns={**(last.returns if last else {}), str(begun.generation): (kept.generation, kept.batch_id)},
    )
    return _claimed(made, begun, topic)


def key_of(mark: BatchMark) -> bytes:
    """The record key of a pipeline's sink, the same for all generations."""
    return mark.fence.encode()


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
