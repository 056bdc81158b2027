"""Kafka's own producer in the driver's JVM, shared with Spark's tasks through the pool of Spark's Kafka connector.

The key of that pool is the producer's settings. Tasks with the same settings, including the transactional id, get the
same producer: the driver opens and ends the transactions, and the tasks send in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink.by_tasks import (
    CONNECTOR,
    intercepted,
    producer_params,
    scala_object,
    send_by_tasks,
)
from rs_assets.connectors.kafka.sink.producer import PROBE, ProducerFailed, not_open, unsendable
from rs_assets.connectors.kafka.sink.records import FAULT
from rs_assets.connectors.sink import BatchMark

ERRORS = "org.apache.kafka.common."
# The client's message for every record after the one that broke the transaction.
DIED_BEFORE = "because we are in an error state"
# The method of Spark's connector that makes a record of a row and sends it.
HANDING_OVER = "kafka010.KafkaRowWriter.sendRow"


@dataclass(slots=True, kw_only=True)
class JvmProducer:
    """A producer of `transactional_id`; `settings` are Kafka's, by their Java names."""

    transactional_id: str
    cluster: KafkaCluster
    settings: Mapping[str, str]
    _jvm: Any = field(default=None, repr=False)
    _cached: Any = field(default=None, repr=False)
    # The initial settings: tasks with others, such as a changed password, would not find the producer.
    _options: Mapping[str, str] = field(default_factory=dict, repr=False)
    _open: bool = False

    def connect(self) -> None:
        """Take a new producer from the pool and fence off the others."""
        # pyspark has no public way to its JVM. Kept: after the session's end another call would start a new one.
        self._jvm = SparkContext.getOrCreate()._jvm  # noqa: SLF001
        self._options = self._made_options()
        with _kafka_errors():
            self._cached = self._pool.acquire(producer_params(self._jvm, self._options))
            self._java.initTransactions()

    def begin(self) -> None:
        """Open a transaction."""
        self.abort()
        with _kafka_errors():
            self._java.beginTransaction()
        self._open = True

    def alive(self, topic: str) -> bool:
        """Send a record and abort."""
        try:
            self.begin()
            with _kafka_errors():
                sent = self._java.send(self._record(topic, PROBE, b""))
                self._java.flush()
                sent.get()
            self.abort()
        except ProducerFailed:
            return False
        return True

    def send(self, records: DataFrame, mark: BatchMark) -> int:
        """Let Spark's tasks send, in parallel; no data passes through Python."""
        self.begin()
        try:
            rows = send_by_tasks(records, self._options)
        except Exception as error:
            raise self._why(error, mark) or error from error
        if not rows:
            self.abort()
        return rows

    def commit(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Send the last record and commit."""
        if not self._open:
            raise not_open()
        with _kafka_errors():
            self._java.send(self._record(topic, key, value))
            self._java.commitTransaction()
        self._open = False

    def abort(self) -> None:
        """Abort the open transaction."""
        if self._open:
            self._open = False
            with _kafka_errors():
                self._java.abortTransaction()

    def close(self, seconds: float) -> None:
        """Close the producer; the pool drops it by itself."""
        cached, self._cached = self._cached, None
        if cached is not None:
            with suppress(Py4JError):
                cached.producer().close(self._jvm.java.time.Duration.ofSeconds(int(seconds)))
            with suppress(Py4JError):
                self._pool.release(cached)

    def _record(self, topic: str, key: bytes, value: bytes) -> Any:
        return self._jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, 0, key, value)

    @property
    def _java(self) -> Any:
        return self._cached.producer()

    def _made_options(self) -> dict[str, str]:
        """Options of Spark's connector, from which it derives the settings of its producers."""
        # Distinguishes this producer from a discarded one, which a task of an earlier batch may still use.
        client = f"rs-assets-{uuid.uuid4().hex[:12]}"
        own = {**intercepted(self.settings), "transactional.id": self.transactional_id, "client.id": client}
        return {**self.cluster.for_spark(), **{f"kafka.{name}": value for name, value in own.items()}}

    @property
    def _pool(self) -> Any:
        return scala_object(self._jvm, f"{CONNECTOR}.producer.InternalKafkaProducerPool")

    def _why(self, error: Exception, mark: BatchMark) -> Exception | None:
        """Why the transaction failed, or the faulty row; None if the sink did not cause the failure.

        Kafka's sources fail with the same error classes. Beginning a transaction again reveals the cause.
        """
        fault = fault_of(str(error))
        if fault is not None:
            return unsendable(fault, mark)
        try:
            self._java.beginTransaction()
        except Py4JJavaError as refused:
            return _failure(refused)
        except Py4JError:
            return None
        return None


@contextmanager
def _kafka_errors() -> Iterator[None]:
    """Turn exceptions of Kafka's client into ProducerFailed."""
    try:
        yield
    except Py4JJavaError as error:
        raise _failure(error) or error from error


def _failure(error: Py4JJavaError) -> ProducerFailed | None:
    """The Kafka exceptions in a chain: the kind of the innermost, the texts of all; None if there are none."""
    found, cause = [], error.java_exception
    while cause is not None:
        if cause.getClass().getName().startswith(ERRORS):
            found.append(cause)
        cause = cause.getCause()
    # The outermost only says that an earlier call failed.
    texts = [str(each.getMessage()).rstrip(".") for each in found[1:] or found]
    return ProducerFailed(found[-1].getClass().getSimpleName(), ": ".join(texts)) if found else None


def fault_of(trace: str) -> str | None:
    """The message of a Java stack trace about a row that could not become a record; None if there is none."""
    if (known := FAULT.search(trace)) is not None:
        return known.group()
    above, found, _ = trace.partition(HANDING_OVER)
    said = [line for line in above.splitlines() if not line.lstrip().startswith("at ")]
    # The transaction may have failed for an earlier record; this one only reported it.
    return said[-1].rpartition("Exception: ")[2] if found and DIED_BEFORE not in said[-1] else None
