"""What the exactly-once sink asks of a producer with a transactional id, and which of the two kinds it gets.

Where driver and tasks are one process, Spark's tasks send through the driver's own producer, in parallel and in its
transaction. On a cluster they cannot, and the driver sends what it collects.
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
# One process, in which a task that failed is not tried again: `local[4,3]` would do so.
ONE_PROCESS = re.compile(r"local(\[(\*|\d+)\])?")


ALLOW = "allow this user to describe the topic and to write to it and, with exactly_once, to the transactional id"
# The key of a record that is never committed.
PROBE = b"rs-assets"


class ProducerFailed(Exception):
    """What a broker or the client said; `kind` is the name of its error, without "Error" or "Exception" at the end."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.kind = re.sub(r"(Error|Exception)$", "", name)


class Producer(Protocol):
    """A producer with a transactional id. All methods but `close` may raise ProducerFailed."""

    def connect(self) -> None:
        """Fence off older producers of the same id; what they left open is committed or aborted behind it."""
        ...

    def begin(self) -> None:
        """Open a transaction; one that is open is aborted."""
        ...

    def alive(self, topic: str) -> bool:
        """Whether the brokers know it still: they take a record for `topic`, in a transaction that is aborted."""
        ...

    def send(self, records: DataFrame, mark: BatchMark) -> int:
        """Send `records`, as `records.records` makes them, in a transaction that stays open; how many there were.

        Nothing stays open if there were none. After an error the only valid call is `close`.
        """
        ...

    def commit(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Add one record more, to partition 0 of `topic`, and commit the transaction that must be open."""
        ...

    def abort(self) -> None:
        """Abort the transaction if one is open."""
        ...

    def close(self, seconds: float) -> None:
        """Give the connection back, in about so many seconds at most, in which what waits is sent; raises nothing."""
        ...


def not_open() -> ProducerFailed:
    """The error of a commit behind an end."""
    return ProducerFailed("IllegalState", "no transaction is open: it was given up")


def cannot_be_written(refused: SourceReadError, *, step: str, topic: str | None = None) -> SinkError:
    """What brokers say to whoever asks them, as the error of a sink."""
    remedy = ALLOW if "TopicAuthorization" in refused.what else refused.remedy
    return SinkError(refused.what, remedy=remedy, **{"step": step, "topic": topic, **refused.facts})


def unsendable(why: object, mark: BatchMark) -> SinkError:
    """The error of a record that no producer takes, with the field that is to blame if `records` has found it."""
    found = FAULT.search(str(why))
    if found is not None:
        return SinkError(
            f"a record cannot be sent: {found['what']}",
            remedy="filter out such rows, or mend the field before the sink",
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
