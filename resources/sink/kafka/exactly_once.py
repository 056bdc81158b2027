"""Records by transactions: a batch and the note that it was sent become visible together, or not at all.

The driver sends the batch by kafka-python in one transaction, which stays open until the runtime commits. Readers with
`isolation.level=read_committed` see each batch once: one that was computed again is found in the topic of commits and
skipped. The transactional id belongs to the pipeline and the sink, so the first batch of a new driver fences off an
older one and aborts what it left open.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from resources.errors import LeaseLostError, RsError, SinkError
from resources.kafka.admin import connected
from resources.kafka.cluster import KafkaCluster
from resources.sink.base import BatchMark, Staged
from resources.sink.kafka.commits import TOPIC, Commit, ensure_topic, key_of, last_commit, settled_commit
from resources.sink.kafka.records import records
from resources.sink.kafka.settings import DEFAULTS, python_settings
from resources.sink.kafka.shape import RecordShape

if TYPE_CHECKING:
    from kafka import KafkaProducer
    from kafka.producer.future import FutureRecordMetadata

# How long an orderly end may take, in seconds: a broker that hangs must not hold up the end of a run.
END_S = 10


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
        """The last batch of the mark's generation, -1 for none; only looks, so one that may be committed counts."""
        found = last_commit(self.cluster, mark)
        known = (commit for commit in (found.commit, found.hidden) if commit is not None)
        return max((commit.batch_id for commit in known if commit.generation == mark.generation), default=-1)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch and send it in a transaction that stays open; nobody who reads committed sees it."""
        rows = records(batch, self.shape, step=self.name).toArrow()
        if not rows.num_rows:
            return Staged(lambda: 0)
        with self._errors(mark, rows):
            producer = self._ready(mark)
            self._abort()
            self._await_topics(producer, rows, mark)
            producer.begin_transaction()
            self._open = True
            self._send(producer, rows, mark)
            _flush(producer)
        return Staged(lambda: self._commit(mark, rows))

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:
        """Only notes the later generation: SinkError if there are batches behind `kept`, which readers have seen."""
        with self._errors(begun):
            producer = self._ready(begun)
        last = self._last
        if last is not None and last.generation == kept.generation and last.batch_id > kept.batch_id:
            raise SinkError(
                f"batches {kept.batch_id + 1} to {last.batch_id} stand in the topic and cannot be taken back",
                remedy="begin a new generation with another topic, or let readers drop what they get twice",
                step=self.name,
            )
        with self._errors(begun):
            producer.begin_transaction()
            self._open = True
        self._commit(begun, None)
        return "had nothing to undo"

    def close(self) -> None:
        """Abort what is open and give the connection back; may be called twice, and raises nothing."""
        self._give_up()

    def _ready(self, mark: BatchMark) -> KafkaProducer:
        """The producer; the first call fences off others and reads what was committed last."""
        if self._producer is None:
            self._producer, self._last = self._begun(mark)
        return self._producer

    def _begun(self, mark: BatchMark) -> tuple[KafkaProducer, Commit | None]:
        from kafka import KafkaProducer

        with connected(self.cluster) as admin:
            ensure_topic(admin)
        # An old driver that wakes up late must not fence off the one that has written since.
        known = last_commit(self.cluster, mark).commit
        if known is not None:
            known.last_batch(mark)
        settings = {**DEFAULTS, **python_settings(self.options, step=self.name)}
        producer = KafkaProducer(
            **self.cluster.for_python(),
            **settings,
            transactional_id=f"{mark.pipeline_id}/{mark.sink}",
            acks="all",
            metrics_enabled=False,
        )
        try:
            producer.init_transactions()
            # Only now: what the one before had open is committed or aborted. Without the note there is no producer.
            return producer, settled_commit(self.cluster, mark)
        except BaseException:
            _end(producer, abort=False)
            raise

    def _await_topics(self, producer: KafkaProducer, rows: pa.Table, mark: BatchMark) -> None:
        """See that all topics of the batch are there and may be used, before a transaction is open."""
        from kafka.errors import KafkaTimeoutError

        for topic in pc.unique(rows.column("topic")).to_pylist():
            if topic is None:
                raise SinkError(
                    f"a row names no topic: its field {self.shape.topic_field!r} is null",
                    remedy="filter such rows out, or give them a topic",
                    step=self.name,
                    batch=mark.batch_id,
                )
            try:
                producer.partitions_for(topic)
            except (KafkaTimeoutError, ValueError) as error:
                raise SinkError(
                    f"Kafka tells nothing of the topic {topic!r}: {error}",
                    remedy="make the topic, or correct its name, and start again: nothing of the batch is visible",
                    step=self.name,
                    topic=topic,
                    batch=mark.batch_id,
                ) from error

    def _send(self, producer: KafkaProducer, rows: pa.Table, mark: BatchMark) -> None:
        try:
            _send(producer, rows)
        except (TypeError, ValueError) as error:
            self._abort()
            raise SinkError(
                f"a record cannot be sent: {error}",
                remedy="filter rows out that have neither key nor value, an unknown partition or null headers",
                step=self.name,
                batch=mark.batch_id,
            ) from error

    def _commit(self, mark: BatchMark, rows: pa.Table | None) -> int:
        count = rows.num_rows if rows is not None else 0
        with self._errors(mark, rows):
            producer = self._ready(mark)
            made = Commit(generation=mark.generation, batch_id=mark.batch_id, token=mark.token, rows=count)
            _accepted(producer.send(TOPIC, key=key_of(mark), value=made.dumped(), partition=0))
            producer.commit_transaction()
            self._open, self._last = False, made
        return count

    def _abort(self) -> None:
        if self._open and self._producer is not None:
            self._open = False
            self._producer.abort_transaction()

    @contextmanager
    def _errors(self, mark: BatchMark, rows: pa.Table | None = None) -> Iterator[None]:
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
            cause = _cause(error)
            too_large = rows is not None and isinstance(cause, errors.MessageSizeTooLargeError)
            raise SinkError(
                f"Kafka did not take the batch: {type(cause).__name__}: {str(cause)[:300]}",
                remedy=REMEDIES.get(type(cause).__name__, "start again: nothing of the batch is visible"),
                step=self.name,
                topic=self.shape.topic or self.shape.topic_field,
                batch=mark.batch_id,
                **(_largest(rows) if too_large else {}),
            ) from error

    def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        was_open, self._open, self._last = self._open, False, None
        if producer is not None:
            _end(producer, abort=was_open)


REMEDIES: Mapping[str, str] = {
    "UnknownTopicOrPartitionError": "make the topic, or correct its name, and start again",
    "MessageSizeTooLargeError": "raise max.request.size here and max.message.bytes of the topic, or send less",
    "RecordTooLargeError": "raise max.request.size here and max.message.bytes of the topic, or send less",
    "TopicAuthorizationFailedError": "allow this user to write to the topic and to the transactional id",
    "TransactionalIdAuthorizationFailedError": "allow this user to write to the topic and to the transactional id",
    "InvalidTransactionTimeoutError": "set transaction.timeout.ms to at most the brokers' transaction.max.timeout.ms",
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
            _accepted(send(topic, value, key))
    else:
        for n, (topic, key, value) in enumerate(zip(topics, keys, values, strict=True)):
            own = [(h["key"], h["value"]) for h in headers[n] or ()] if headers is not None else None
            _accepted(send(topic, value, key, own, partitions[n] if partitions is not None else None))


def _accepted(sent: FutureRecordMetadata) -> None:
    """Raise what kept a record from being taken: kafka-python hides it in the future, and the transaction goes on."""
    if sent.is_done and sent.failed():
        raise sent.exception


def _flush(producer: KafkaProducer) -> None:
    """Wait until all records were answered; a refusal of the broker is raised by the commit."""
    from kafka.errors import UnknownError

    while True:
        try:
            producer.flush()
        except UnknownError:
            # A batch was larger than the topic allows: it was parted, and the parts are under way.
            continue
        return


def _cause(error: Exception) -> Exception:
    """What a broker said, where kafka-python wraps it into the arguments of another error."""
    from kafka.errors import KafkaError

    wrapped = error.args[0] if error.args and isinstance(error.args[0], tuple) else error.args
    return next((each for each in wrapped if isinstance(each, KafkaError)), error)


def _largest(rows: pa.Table) -> dict[str, object]:
    """Key and size in bytes of the record with the longest value."""
    sizes = pc.fill_null(pc.binary_length(rows.column("value")), 0)
    place = pc.index(sizes, pc.max(sizes)).as_py()
    key = rows.column("key")[place].as_py()
    return {"key": None if key is None else key[:100].decode(errors="replace"), "size": sizes[place].as_py()}


def _end(producer: KafkaProducer, *, abort: bool) -> None:
    """Abort and close, and raise nothing: what cannot be aborted now, the next start aborts, or its timeout does."""
    from kafka.errors import KafkaError

    def end() -> None:
        if abort:
            with suppress(KafkaError):
                producer.abort_transaction()
        with suppress(KafkaError):
            producer.close(timeout=END_S)

    # Aborting knows no timeout.
    ending = threading.Thread(target=end, name="end of a Kafka producer", daemon=True)
    ending.start()
    ending.join(END_S)
