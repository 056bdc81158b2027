"""Records by transactions: a batch and the note that it was sent become visible together, or not at all.

The driver sends the batch by kafka-python in one transaction, which stays open until the runtime commits. Readers with
`isolation.level=read_committed` see each batch once: one that was computed again is found in the topic of commits and
skipped. The transactional id belongs to the pipeline and the sink, so the first batch of a new driver fences off an
older one and aborts what it left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from resources.errors import ConfigurationError, LeaseLostError, RsError, SinkError
from resources.kafka.admin import connected
from resources.kafka.cluster import KafkaCluster
from resources.sink.base import BatchMark, Staged
from resources.sink.kafka.commits import TOPIC, Commit, ensure_topic, key_of, last_commit
from resources.sink.kafka.records import records
from resources.sink.kafka.shape import RecordShape

if TYPE_CHECKING:
    from kafka import KafkaProducer

# Settings of Kafka's producer that may be given, with their names in kafka-python and their kinds.
SETTINGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "batch.size": ("batch_size", int),
    "compression.type": ("compression_type", str),
    "delivery.timeout.ms": ("delivery_timeout_ms", int),
    "linger.ms": ("linger_ms", int),
    "max.request.size": ("max_request_size", int),
    "request.timeout.ms": ("request_timeout_ms", int),
    "transaction.timeout.ms": ("transaction_timeout_ms", int),
}
DEFAULTS: Mapping[str, object] = {
    # As long as brokers allow: a transaction waits for the other sinks of its batch.
    "transaction_timeout_ms": 900_000,
    # Few large requests; nothing waits for more, for a batch is flushed.
    "batch_size": 1 << 18,
    "linger_ms": 5,
}


def python_settings(options: Mapping[str, str], *, step: str) -> dict[str, object]:
    """Settings of Kafka's producer as kafka-python takes them; ConfigurationError for others than SETTINGS.

    >>> python_settings({"linger.ms": "20"}, step="totals")
    {'linger_ms': 20}
    """
    made: dict[str, object] = {}
    for name, value in options.items():
        known = SETTINGS.get(name)
        if known is None:
            raise ConfigurationError(
                f"step {step!r}: {name!r} cannot be set with delivery='exactly_once'",
                remedy=f"these can: {', '.join(SETTINGS)}",
                step=step,
            )
        try:
            made[known[0]] = known[1](value)
        except ValueError as error:
            raise ConfigurationError(f"step {step!r}: {name} is no number: {value!r}", step=step) from error
    return made


@dataclass(slots=True, kw_only=True)
class TransactionalWriter:
    """Sends batches in transactions; one producer for all batches of a run."""

    name: str
    cluster: KafkaCluster
    shape: RecordShape
    options: Mapping[str, str] = field(default_factory=dict)
    _producer: KafkaProducer | None = field(default=None, repr=False)
    _last: Commit | None = None
    _open: bool = False

    def location(self) -> str:
        """The brokers and the topic."""
        return f"kafka://{','.join(self.cluster.servers)}/{self.shape.topic or self.shape.topic_field}"

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch, or a later one, was sent; fences off older drivers. LeaseLostError for one of those."""
        with self._errors(mark):
            self._ready(mark)
            return self._last is not None and self._last.last_batch(mark) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch of the mark's generation, -1 for none; only looks."""
        found = last_commit(self.cluster, mark)
        return found.batch_id if found is not None and found.generation == mark.generation else -1

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch and send it in a transaction that stays open; nobody who reads committed sees it."""
        rows = records(batch, self.shape, step=self.name).toArrow()
        if not rows.num_rows:
            return Staged(lambda: 0)
        with self._errors(mark):
            producer = self._ready(mark)
            self._abort()
            producer.begin_transaction()
            self._open = True
            self._send(producer, rows, mark)
            producer.flush()
        return Staged(lambda: self._commit(mark, rows.num_rows))

    def _send(self, producer: KafkaProducer, rows: pa.Table, mark: BatchMark) -> None:
        try:
            _send(producer, rows)
        except ValueError as error:
            self._abort()
            raise SinkError(
                f"a record cannot be sent: {error}; kafka-python sends none that has neither key nor value",
                remedy="filter such rows out, or give them a key",
                step=self.name,
                batch=mark.batch_id,
            ) from error

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:
        """Only notes the later generation: SinkError if there are batches behind `kept`, which readers have seen."""
        last = last_commit(self.cluster, begun)
        if last is not None and last.generation == kept.generation and last.batch_id > kept.batch_id:
            raise SinkError(
                f"batches {kept.batch_id + 1} to {last.batch_id} stand in the topic and cannot be taken back",
                remedy="begin a new generation with another topic, or let readers drop what they get twice",
                step=self.name,
            )
        with self._errors(begun):
            self._ready(begun).begin_transaction()
            self._open = True
        self._commit(begun, 0)
        return "had nothing to undo"

    def close(self) -> None:
        """Abort what is open and give the connection back; may be called twice."""
        with suppress(RsError):
            self._abort()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout=5)

    def _ready(self, mark: BatchMark) -> KafkaProducer:
        """The producer; the first call fences off others and reads what was committed last."""
        if self._producer is None:
            from kafka import KafkaProducer

            with connected(self.cluster) as admin:
                ensure_topic(admin)
            settings = {**DEFAULTS, **python_settings(self.options, step=self.name)}
            producer = KafkaProducer(
                **self.cluster.for_python(),
                **settings,
                transactional_id=f"{mark.pipeline_id}/{mark.sink}",
                acks="all",
                metrics_enabled=False,
            )
            self._producer = producer
            producer.init_transactions()
            # Only now: what the one before had open is committed or aborted.
            self._last = last_commit(self.cluster, mark)
        return self._producer

    def _commit(self, mark: BatchMark, rows: int) -> int:
        with self._errors(mark):
            producer = self._ready(mark)
            made = Commit(generation=mark.generation, batch_id=mark.batch_id, token=mark.token, rows=rows)
            producer.send(TOPIC, key=key_of(mark), value=made.dumped(), partition=0)
            producer.commit_transaction()
            self._open, self._last = False, made
        return rows

    def _abort(self) -> None:
        if self._open and self._producer is not None:
            self._open = False
            self._producer.abort_transaction()

    @contextmanager
    def _errors(self, mark: BatchMark) -> Iterator[None]:
        """Turn Kafka's errors into ours; behind one the producer is given up, for its transaction is lost."""
        from kafka import errors

        try:
            yield
        except RsError:
            raise
        except (errors.ProducerFencedError, errors.InvalidProducerEpochError) as error:
            self._give_up()
            raise LeaseLostError(
                "another driver has begun to write to the topic",
                remedy="nothing to do: this run ends here, the other one goes on",
                step=self.name,
                batch=mark.batch_id,
            ) from error
        except (errors.KafkaError, OSError) as error:
            self._give_up()
            raise SinkError(
                f"Kafka did not take the batch: {type(error).__name__}: {str(error)[:300]}",
                remedy=REMEDIES.get(type(error).__name__, "start again: nothing of the batch is visible"),
                step=self.name,
                topic=self.shape.topic or self.shape.topic_field,
                batch=mark.batch_id,
            ) from error

    def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        self._open, self._last = False, None
        if producer is not None:
            producer.close(timeout=0)


REMEDIES: Mapping[str, str] = {
    "UnknownTopicOrPartitionError": "make the topic, or correct its name, and start again",
    "MessageSizeTooLargeError": "raise max.request.size here and max.message.bytes of the topic, or send less",
    "RecordTooLargeError": "raise max.request.size here and max.message.bytes of the topic, or send less",
    "TopicAuthorizationFailedError": "allow this user to write to the topic and to the transactional id",
    "KafkaTimeoutError": "check that the topic exists and the brokers run, and start again: nothing is visible",
}


def _send(producer: KafkaProducer, rows: pa.Table) -> None:
    """Hand all records to the producer, column by column: a loop over rows, but a tight one."""
    names = rows.schema.names
    topics, keys, values = (rows.column(name).to_pylist() for name in ("topic", "key", "value"))
    partitions = rows.column("partition").to_pylist() if "partition" in names else None
    headers = rows.column("headers").to_pylist() if "headers" in names else None
    send: Any = producer.send
    if partitions is None and headers is None:
        for topic, key, value in zip(topics, keys, values, strict=True):
            send(topic, value, key)
    else:
        for n, (topic, key, value) in enumerate(zip(topics, keys, values, strict=True)):
            own = [(h["key"], h["value"]) for h in headers[n] or ()] if headers is not None else None
            send(topic, value, key, own, partitions[n] if partitions is not None else None)
