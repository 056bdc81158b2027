"""kafka-python's producer: the driver collects a batch and sends it, if Spark's tasks cannot share a producer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink.producer import PROBE, ProducerFailed, not_open, unsendable
from rs_assets.connectors.kafka.sink.record_time import TIMESTAMP
from rs_assets.connectors.kafka.sink.records import FAULT
from rs_assets.connectors.kafka.sink.settings import python_settings
from rs_assets.connectors.sink import BatchMark

if TYPE_CHECKING:
    from kafka import KafkaProducer
    from kafka.producer.future import FutureRecordMetadata


# How long a call may wait, as in Kafka's own client.
MAX_BLOCK_MS = "60000"
# kafka-python's wording for the error that has ended a client.
ENDED_BY = re.compile(r"error state: \[Error \d+\] (\w+)")


@dataclass(slots=True, kw_only=True)
class PythonProducer:
    """A producer of `transactional_id`; `settings` are Kafka's, by their Java names."""

    transactional_id: str
    cluster: KafkaCluster
    settings: Mapping[str, str]
    _client: KafkaProducer | None = field(default=None, repr=False)
    _open: bool = False

    def connect(self) -> None:
        """Connect and fence off the others."""
        from kafka import KafkaProducer

        with _kafka_errors():
            self._client = KafkaProducer(
                **self.cluster.for_python(),
                **python_settings(self.settings, step=self.transactional_id),
                transactional_id=self.transactional_id,
                acks="all",
                metrics_enabled=False,
            )
            self._client.init_transactions()

    def begin(self) -> None:
        """Open a transaction."""
        self.abort()
        with _kafka_errors():
            self._connected().begin_transaction()
        self._open = True

    def alive(self, topic: str) -> bool:
        """Send a record and abort."""
        try:
            self.begin()
            with _kafka_errors():
                sent = self._connected().send(topic, key=PROBE, value=b"", partition=0)
                sent.get(timeout=self._patience_s)
            self.abort()
        except ProducerFailed:
            return False
        return True

    def send(self, records: DataFrame, mark: BatchMark) -> int:
        """Collect the records on the driver and send them from one thread."""
        self.abort()
        try:
            rows = records.toArrow()
        except PySparkException as error:
            if FAULT.search(str(error)):
                raise unsendable(error, mark) from error
            raise
        if not rows.num_rows:
            return 0
        client = self._connected()
        with _kafka_errors():
            _await_topics(client, rows, mark)
            self.begin()
            try:
                _send(client, rows)
            except (TypeError, ValueError) as error:
                raise unsendable(error, mark) from error
            _flush(client)
        return int(rows.num_rows)

    def commit(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Send the last record and commit."""
        if not self._open:
            raise not_open()
        client = self._connected()
        with _kafka_errors():
            _accepted(client.send(topic, key=key, value=value, partition=0))
            _within(self._patience_s, client.commit_transaction, "EndTxn")
        self._open = False

    def abort(self) -> None:
        """Abort the open transaction."""
        if self._open:
            self._open = False
            with _kafka_errors():
                _within(self._patience_s, self._connected().abort_transaction, "the end of an aborted transaction")

    def close(self, seconds: float) -> None:
        """Close the connection."""
        from kafka.errors import KafkaError

        client, self._client = self._client, None
        if client is not None:
            with suppress(KafkaError):
                client.close(timeout=seconds)

    @property
    def _patience_s(self) -> float:
        return int(self.settings.get("max.block.ms", MAX_BLOCK_MS)) / 1000

    def _connected(self) -> KafkaProducer:
        if self._client is None:
            raise not_open()
        return self._client


def _await_topics(client: KafkaProducer, rows: pa.Table, mark: BatchMark) -> None:
    """Check that all topics of the batch exist and are writable, before a transaction is open."""
    from kafka.errors import KafkaTimeoutError

    for topic in pc.unique(rows.column("topic")).to_pylist():
        if topic is None:
            raise unsendable("its topic is null", mark)
        try:
            client.partitions_for(topic)
        except KafkaTimeoutError as error:
            raise ProducerFailed("Timeout", f"no metadata of the topic {topic!r}: {error}") from error
        except ValueError as error:
            raise ProducerFailed("InvalidTopic", f"the topic {topic!r}: {error}") from error


def _send(client: KafkaProducer, rows: pa.Table) -> None:
    """Hand all records to the client, column by column: a loop over rows, but a fast one."""
    names = rows.schema.names
    topics, keys, values = (rows.column(name).to_pylist() for name in ("topic", "key", "value"))
    partitions, headers, times = (
        rows.column(name).to_pylist() if name in names else None for name in ("partition", "headers", TIMESTAMP)
    )
    send: Any = client.send
    if partitions is None and headers is None and times is None:
        for topic, key, value in zip(topics, keys, values, strict=True):
            _accepted(send(topic, value, key))
    else:
        for n, (topic, key, value) in enumerate(zip(topics, keys, values, strict=True)):
            own = [(h["key"], h["value"]) for h in headers[n] or ()] if headers is not None else None
            partition = partitions[n] if partitions is not None else None
            _accepted(send(topic, value, key, own, partition, times[n] if times is not None else None))


def _within(seconds: float, call: Callable[[], object], what: str) -> None:
    """Run `call()`, which may block without limit: ProducerFailed if it takes longer than `seconds`."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  passed to the caller unchanged
            raised.append(error)

    thread = threading.Thread(target=run, name="kafka-python", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise ProducerFailed("Timeout", f"no answer within {seconds:.0f} s while awaiting {what}")
    if raised:
        raise raised[0]


def _accepted(sent: FutureRecordMetadata) -> None:
    """Raise the error of a rejected record: kafka-python hides it in the future, and the transaction continues."""
    if sent.is_done and sent.failed():
        raise sent.exception


def _flush(client: KafkaProducer) -> None:
    """Wait until all records are acknowledged; a rejection by the broker is raised by the commit."""
    from kafka.errors import UnknownError

    while True:
        try:
            client.flush()
        except UnknownError:
            # A batch was larger than the topic allows: it was split, and the parts are being sent.
            continue
        return


@contextmanager
def _kafka_errors() -> Iterator[None]:
    """Turn errors of kafka-python into ProducerFailed."""
    from kafka.errors import KafkaError

    try:
        yield
    except (KafkaError, OSError) as error:
        cause = _cause(error)
        raise ProducerFailed(_name_of(cause), str(cause)) from error


def _name_of(error: Exception) -> str:
    """The class of an error; later calls name the error that has ended a client only in their text."""
    from kafka.errors import KafkaError

    cause = ENDED_BY.search(str(error)) if type(error) is KafkaError else None
    return cause[1] if cause is not None else type(error).__name__


def _cause(error: Exception) -> Exception:
    """The broker's error, which kafka-python wraps into the arguments of another error."""
    from kafka.errors import KafkaError

    wrapped = error.args[0] if error.args and isinstance(error.args[0], tuple) else error.args
    return next((each for each in wrapped if isinstance(each, KafkaError)), error)
