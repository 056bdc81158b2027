"""Turns broker errors of the exactly-once sink into project errors with a remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import COMMITS
from rs_assets.connectors.kafka.sink.commits import last_commit
from rs_assets.connectors.kafka.sink.jvm_producer import fault_of
from rs_assets.connectors.kafka.sink.producer import ALLOW, ProducerFailed, unsendable
from rs_assets.connectors.sink import BatchMark, overtaken
from rs_assets.errors import LeaseLostError, RsError, SinkError, SourceReadError

OTHER_TOPIC = "create the topic, or correct its name, and start again"
KEYED = "a compacted topic only accepts records with keys: name the field in key=, and filter out rows where it is null"
TOO_LARGE = "raise max.request.size here and max.message.bytes of the topic, or send less"
TIMEOUT = "set transaction.timeout.ms to at most the brokers' transaction.max.timeout.ms"
LOOK = "check that topic and partition exist, the brokers run, and batch.size fits into max.message.bytes of the topic"
BELIEVED = (
    "the time of a record lies beyond message.timestamp.after.max.ms or message.timestamp.before.max.ms of the topic:"
    " raise that, filter out such rows, or name another field in timestamp="
)
# By their names in Kafka's own client and kafka-python, without the suffix.
REMEDIES: Mapping[str, str] = {
    "UnknownTopicOrPartition": OTHER_TOPIC,
    "InvalidTopic": OTHER_TOPIC,
    "TopicAuthorization": ALLOW,
    "TopicAuthorizationFailed": ALLOW,
    "TransactionalIdAuthorization": ALLOW,
    "TransactionalIdAuthorizationFailed": ALLOW,
    "RecordTooLarge": TOO_LARGE,
    "MessageSizeTooLarge": TOO_LARGE,
    "InvalidRecord": KEYED,
    "InvalidTimestamp": BELIEVED,
    "InvalidTxnTimeout": TIMEOUT,
    "InvalidTransactionTimeout": TIMEOUT,
    "Timeout": LOOK,
    "KafkaTimeout": LOOK,
}
# A message of Kafka's client in the trace of a Spark job, and other clients than a producer that may raise it.
SAID = re.compile(r"org\.apache\.kafka\.common\.[a-z.]*?(\w+?)(?:Error|Exception): ([^\n]*)")
CONSUMER = re.compile(r"clients\.consumer|kafka010\.consumer|KafkaDataConsumer|clients\.admin")
# Another producer has started with the transactional id, or the brokers have ended a transaction that took too long.
FENCED = ("ProducerFenced", "InvalidProducerEpoch")
ENDED = (*FENCED, "TransactionAbortable", "InvalidTxnState")
# The errors that a missing topic eventually leads to.
ABSENT = ("UnknownTopicOrPartition", "Timeout", "KafkaTimeout")
# How long the brokers are asked for the reason after a failure.
PATIENCE = timedelta(seconds=5)

SEND_AGAIN = (
    "raise transaction.timeout.ms (options=), above 15 minutes also transaction.max.timeout.ms of the brokers: the"
    " batch is computed again as it was planned; then keep later ones short by max_rows_per_batch"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A try to send a batch to `topic`, how long it took, and how long a transaction may take, in seconds."""

    cluster: KafkaCluster
    step: str
    topic: str | None
    mark: BatchMark
    took_s: float
    timeout_s: float
    sent: DataFrame | None = field(default=None, repr=False)

    def error(self, failed: ProducerFailed) -> RsError:
        """The failure as a project error with a remedy."""
        if failed.kind in FENCED and (lost := self._overtaken()):
            return lost
        if failed.kind in ENDED and self.took_s >= self.timeout_s:
            return self._too_long()
        if failed.kind in ABSENT and self._notes_are_gone():
            return notes_gone(self.mark, step=self.step)
        remedy = REMEDIES.get(failed.kind, "start again: nothing of the batch is visible")
        return SinkError(
            f"Kafka did not take the batch: {str(failed)[:300]}",
            remedy=remedy,
            step=self.step,
            topic=self.topic,
            batch=self.mark.batch_id,
            **(_largest(self.sent) if self.sent is not None and remedy is TOO_LARGE else {}),
        )

    def _overtaken(self) -> LeaseLostError | None:
        """An error if another driver has written, or if the transaction was ended before its timeout."""
        with suppress(SourceReadError, SinkError):
            try:
                known = last_commit(self.cluster, self.mark).commit
                if known is not None:
                    known.last_batch(self.mark)
            except LeaseLostError as lost:
                return lost
        if self.took_s >= self.timeout_s:
            return None
        return overtaken("another driver has begun to write to the topic", step=self.step, batch=self.mark.batch_id)

    def _too_long(self) -> SinkError:
        return SinkError(
            f"the batch took {self.took_s:.0f} s, and its transaction may take {self.timeout_s:.0f} s"
            " (transaction.timeout.ms): nothing of it is visible",
            remedy=SEND_AGAIN,
            step=self.step,
            topic=self.topic,
            batch=self.mark.batch_id,
        )

    def _notes_are_gone(self) -> bool:
        try:
            with connected(self.cluster, patience=PATIENCE) as admin:
                return COMMITS not in admin.topics([COMMITS])
        except SourceReadError:
            return False


def sent_again(step: str, topic: str) -> str:
    """The warning for a generation that sends to a topic in which the records of earlier ones stay."""
    return (
        f"a new generation sends all rows of {step!r} again, and {topic} keeps records of earlier ones: its readers may"
        " start at the current offsets, or name another topic"
    )


def refusal(trace: str, sent: DataFrame, mark: BatchMark, *, topic: str | None) -> SinkError | None:
    """The error for records that a failed Spark job sent; None if it failed for another reason.

    Kafka's consumers fail with the same error classes, so the trace must not mention a consumer.
    """
    fault = fault_of(trace)
    if fault is not None:
        return unsendable(fault, mark)
    found = SAID.findall(trace)
    if not found or CONSUMER.search(trace) or found[-1][0] not in REMEDIES:
        return None
    (kind, said), remedy = found[-1], REMEDIES[found[-1][0]]
    facts = _largest(sent) if remedy is TOO_LARGE else {}
    what = f"Kafka did not take the batch: {kind}: {said[:300]}"
    return SinkError(what, remedy=remedy, step=mark.sink, topic=topic, batch=mark.batch_id, **facts)


def notes_gone(mark: BatchMark, *, step: str) -> SinkError:
    """The error for a commit topic that was deleted while the sink wrote."""
    return SinkError(
        f"the topic {COMMITS!r}, which records each committed batch, was deleted or emptied",
        remedy="start again: the topic is then compared with the checkpoint, and the start says how to go on",
        step=step,
        topic=COMMITS,
        batch=mark.batch_id,
    )


def _largest(sent: DataFrame) -> dict[str, object]:
    """Key and size in bytes of the record with the longest value; computes the batch again."""
    size = F.coalesce(F.length("value"), F.lit(0))
    try:
        row = sent.select(F.max(size).alias("size"), F.max_by("key", size).alias("key")).head()
    except PySparkException:
        return {}
    if row is None or row["size"] is None:
        return {}
    key = row["key"]
    return {"key": None if key is None else bytes(key[:100]).decode(errors="replace"), "size": row["size"]}
