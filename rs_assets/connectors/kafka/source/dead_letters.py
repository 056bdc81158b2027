"""Sends records that could not be used to a topic: unchanged, with the headers of Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.common.chunks import in_chunks
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import Partition, split_name
from rs_assets.errors import SinkError

# The header names of Kafka Streams (KIP-1034) for the error, its place and the record.
PREFIX = "__streams.errors."
# How long the brokers may take to accept the records, in seconds.
FLUSH_S = 60.0
# The brokers decide what is too large; kafka-python would stop at 1 MB, and the headers add to it.
LARGEST_BYTES = 1 << 30
# Records are selected by their offsets in the plan of a query; so many at a time keep it small.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The address of a record that could not be used, and the reason."""

    partition: Partition
    offset: int
    error: str
    reason: str

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers, all text in UTF-8."""
        topic, number = self.partition
        facts = {
            "exception": self.error,
            "message": self.reason,
            "stacktrace": "",
            "topic": topic,
            "partition": str(number),
            "offset": str(self.offset),
        }
        return [(PREFIX + name, value.encode()) for name, value in facts.items()]


def refused_of(letters: pa.Table, partitions: Iterable[Partition]) -> list[Refused]:
    """The rows of the dead-letter table that come from these partitions."""
    known = {split_name(partition): partition for partition in partitions}
    return [
        Refused(partition=known[row["split"]], offset=row["offset"], error="BadRecordError", reason=row["reason"])
        for row in letters.select(["split", "offset", "reason"]).to_pylist()
        if row["split"] in known
    ]


def send_refused(records: DataFrame, refused: Sequence[Refused], *, cluster: KafkaCluster, topic: str) -> int:
    """Send the refused ones of `records` (from Spark's connector) to `topic`; returns their number.

    At least once: a repeated batch sends them again, and their headers identify them. SinkError if the brokers do not
    accept them within a minute.
    """
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    if not refused:
        return 0
    try:
        producer = KafkaProducer(
            **cluster.for_python(), acks="all", enable_idempotence=True, max_request_size=LARGEST_BYTES
        )
        try:
            sent = [producer.send(topic, **_message(row, why)) for row, why in _found(records, refused)]
            producer.flush(timeout=FLUSH_S)
            for future in sent:
                future.get(timeout=FLUSH_S)
        finally:
            producer.close(timeout=FLUSH_S)
    except (KafkaError, OSError) as error:
        raise SinkError(
            f"dead letters could not be sent: {type(error).__name__}: {str(error)[:200]}",
            remedy="create the topic, or correct the cause above, and start again: the batch was not committed",
            topic=topic,
        ) from error
    return len(sent)


def _found(records: DataFrame, refused: Sequence[Refused]) -> Iterable[tuple[Mapping[str, object], Refused]]:
    for some in in_chunks(refused, CHUNK):
        known = {(*r.partition, r.offset): r for r in some}
        wanted = F.lit(False)  # noqa: FBT003  a literal of SQL
        for topic, number in {r.partition for r in known.values()}:
            offsets = [r.offset for r in known.values() if r.partition == (topic, number)]
            here = (F.col("topic") == topic) & (F.col("partition") == number)
            wanted = wanted | (here & F.col("offset").isin(offsets))
        for row in records.filter(wanted).toArrow().to_pylist():
            yield row, known[row["topic"], row["partition"], row["offset"]]


def _message(row: Mapping[str, object], why: Refused) -> dict[str, object]:
    # kafka-python sends no header without a value, and no record with neither key nor value: empty ones replace them.
    own = [(header["key"], header["value"] or b"") for header in row["headers"] or ()]  # type: ignore[attr-defined]
    at = row["timestamp"]
    empty = row["key"] is None and row["value"] is None
    return {
        "key": row["key"],
        "value": b"" if empty else row["value"],
        "headers": [*own, *why.headers()],
        "timestamp_ms": int(at.timestamp() * 1000) if at is not None else None,  # type: ignore[attr-defined]
    }
