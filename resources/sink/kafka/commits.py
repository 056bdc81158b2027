"""Who committed which batch: a compacted topic with one record for each pipeline and sink, the last of them counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import orjson

from resources.errors import LeaseLostError, SinkError
from resources.kafka.admin import Admin, connected, kafka_errors
from resources.kafka.cluster import KafkaCluster
from resources.sink.base import BatchMark

TOPIC = "rs-assets-commits"
# Small segments: only closed ones are compacted, and each start reads what is left.
SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
POLL_MS = 200
# A topic that gives no record for so long, and does not say either that its end is reached, is not read to its end.
PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The last batch that a sink has got, and the fencing token of the driver that sent it."""

    generation: int
    batch_id: int
    token: int
    rows: int

    def dumped(self) -> bytes:
        """As the value of a record."""
        return orjson.dumps(asdict(self))

    def last_batch(self, mark: BatchMark) -> int:
        """The last batch of the mark's generation, -1 for none.

        LeaseLostError if a driver with a newer token, or a later generation, has written since.
        """
        if self.token > mark.token or self.generation > mark.generation:
            raise LeaseLostError(
                "another driver has taken over and written since",
                remedy="nothing to do: this run ends here, the other one goes on",
                sink=mark.sink,
                token=mark.token,
                newer_token=self.token,
            )
        return self.batch_id if self.generation == mark.generation else -1


def key_of(mark: BatchMark) -> bytes:
    """The key of a pipeline's sink, the same for all generations."""
    return mark.fence.encode()


def ensure_topic(admin: Admin) -> None:
    """Make the topic if it is not there."""
    if TOPIC not in admin.topics([TOPIC]):
        admin.create_topic(TOPIC, partitions=1, settings=SETTINGS)


def last_commit(cluster: KafkaCluster, mark: BatchMark) -> Commit | None:
    """The last commit of the mark's sink, None for none; what open and aborted transactions wrote does not count."""
    with connected(cluster) as admin:
        if TOPIC not in admin.topics([TOPIC]):
            return None
    found = _last_value(cluster, key_of(mark))
    if found is None:
        return None
    try:
        return Commit(**orjson.loads(found))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise SinkError(
            f"the record of {mark.fence!r} in topic {TOPIC!r} is damaged",
            remedy="somebody else writes to that topic: it belongs to this project alone",
            topic=TOPIC,
        ) from error


def _last_value(cluster: KafkaCluster, key: bytes) -> bytes | None:
    from kafka import KafkaConsumer, TopicPartition

    partition, found = TopicPartition(TOPIC, 0), None
    with kafka_errors(cluster):
        consumer: Any = KafkaConsumer(
            **cluster.for_python(), isolation_level="read_committed", enable_auto_commit=False, group_id=None
        )
        try:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end, idle_ms = consumer.end_offsets([partition])[partition], 0
            while consumer.position(partition) < end:
                records = consumer.poll(timeout_ms=POLL_MS).get(partition, [])
                found = next((r.value for r in reversed(records) if r.key == key), found)
                idle_ms = 0 if records else idle_ms + POLL_MS
                if idle_ms > PATIENCE // timedelta(milliseconds=1):
                    raise SinkError("the topic of commits cannot be read to its end", topic=TOPIC)
        finally:
            consumer.close()
    return found
