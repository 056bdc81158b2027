"""The interface of a producer with a transactional id, and the choice between its two implementations.

If driver and tasks are one process, Spark's tasks send through the driver's own producer, in parallel and in its
transaction. On a cluster this is impossible, and the driver collects and sends the records.
"""

from __future__ import annotations

import re
from typing import Protocol

from pyspark import SparkContext
from pyspark.sql import DataFrame

from rs_assets.connectors.kafka.sink.records import FAULT
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError, SourceReadError

ATTEMPTS = "spark.stage.maxConsecutiveAttempts"
# One process, in which a failed task is not retried, unlike `local[4,3]`.
ONE_PROCESS = re.compile(r"local(\[(\*|\d+)\])?")


ALLOW = "allow this user to describe the topic and to write to it and, with exactly_once, to the transactional id"
# The key of a record that is never committed.
PROBE = b"rs-assets"


class ProducerFailed(Exception):
    """An error of a broker or the client; `kind` is its name without the suffix "Error" or "Exception"."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.kind = re.sub(r"(Error|Exception)$", "", name)


class Producer(Protocol):
    """A producer with a transactional id. All methods but `close` may raise ProducerFailed."""

    def connect(self) -> None:
        """Fence off older producers of the same id; their open transactions are then committed or aborted."""
        ...

    def begin(self) -> None:
        """Open a transaction; an open one is aborted."""
        ...

    def alive(self, topic: str) -> bool:
        """Whether the brokers still know it: they accept a record for `topic`, in a transaction that is aborted."""
        ...

    def send(self, records: DataFrame, mark: BatchMark) -> int:
        """Send `records` (from `records.records`) in a transaction that stays open; returns their number.

        Without records no transaction stays open. After an error the only valid call is `close`.
        """
        ...

    def commit(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Add one more record, to partition 0 of `topic`, and commit the transaction, which must be open."""
        ...

    def abort(self) -> None:
        """Abort the transaction if one is open."""
        ...

    def close(self, seconds: float) -> None:
        """Close the connection in about `seconds` at most, sending pending records; raises nothing."""
        ...


def not_open() -> ProducerFailed:
    """The error of a commit after the transaction has ended."""
    return ProducerFailed("IllegalState", "no transaction is open: it was abandoned")


def cannot_be_written(refused: SourceReadError, *, step: str, topic: str | None = None) -> SinkError:
    """A broker's answer to an administrative request, as the error of a sink."""
    remedy = ALLOW if "TopicAuthorization" in refused.what else refused.remedy
    return SinkError(refused.what, remedy=remedy, **{"step": step, "topic": topic, **refused.facts})


def unsendable(why: object, mark: BatchMark) -> SinkError:
    """The error for a record that no producer accepts, with the faulty field if `records` found it."""
    found = FAULT.search(str(why))
    if found is not None:
        return SinkError(
            f"a record cannot be sent: {found['what']}",
            remedy="filter out such rows, or correct the field before the sink",
            step=mark.sink,
            field=found["field"],
            batch=mark.batch_id,
        )
    return SinkError(
        f"a record cannot be sent: {why}",
        remedy="filter out rows without a topic, with neither key nor value, an unknown partition or null headers",
        step=mark.sink,
        batch=mark.batch_id,
    )


def tasks_share_producers(spark: SparkContext) -> bool:
    """Whether tasks run in the driver's process and none runs twice, which would send its records twice."""
    return ONE_PROCESS.fullmatch(spark.master or "") is not None and spark.getConf().get(ATTEMPTS) == "1"
