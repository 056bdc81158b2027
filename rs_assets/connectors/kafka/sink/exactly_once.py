"""The exactly-once sink: a batch and its commit record become visible together, in one transaction, or not at all.

A batch is sent in one transaction, which stays open until the runtime commits. Readers with
`isolation.level=read_committed` see each batch once: a recomputed batch is found in the commit topic and skipped. The
transactional id belongs to the pipeline and the sink, so the first batch of a new driver fences off an older one and
aborts its open transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyspark import SparkContext
from pyspark.sql import DataFrame

from rs_assets.connectors.commits import Commit, key_of, noted, noted_return, refuse_return
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import COMMITS
from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.sink.commits import ensure_topic, last_commit, last_writer_of, settled_commit
from rs_assets.connectors.kafka.sink.failures import Attempt, notes_gone, sent_again
from rs_assets.connectors.kafka.sink.jvm_producer import JvmProducer
from rs_assets.connectors.kafka.sink.producer import Producer, ProducerFailed, cannot_be_written, tasks_share_producers
from rs_assets.connectors.kafka.sink.python_producer import PythonProducer
from rs_assets.connectors.kafka.sink.records import records
from rs_assets.connectors.kafka.sink.settings import TRANSACTIONAL
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.kafka.sink.target import asking, check_topic, known_partitions
from rs_assets.connectors.sink import BatchMark, LastWriter, Staged
from rs_assets.errors import SourceReadError

# How long an orderly close may take, in seconds: a hanging broker must not delay the end of a run.
END_S = 10
# Brokers forget a producer that was idle for long (transactional.id.expiration.ms): after so many idle seconds a
# producer is checked before a batch is computed.
IDLE_S = 10.0


@dataclass(slots=True, kw_only=True)
class TransactionalWriter:
    """Sends batches in transactions; one producer for all batches of a run, a new one after each failure."""

    name: str
    cluster: KafkaCluster
    shape: RecordShape
    options: Mapping[str, str] = field(default_factory=dict)
    _ids: SchemaIds | None = field(default=None, repr=False)
    _producer: Producer | None = field(default=None, repr=False)
    # The last known commit; kept when a producer is discarded.
    _last: Commit | None = None
    # Start of the batch and last use of the producer, by the monotonic clock.
    _opened: float = 0.0
    _used: float = 0.0

    def location(self) -> str:
        """The brokers and the topic."""
        return f"kafka://{','.join(self.cluster.servers)}/{self.shape.topic or self.shape.topic_field}"

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch, or a later one, was sent; fences off older drivers. LeaseLostError for one of those."""
        with self._errors(mark):
            self._ready(mark)
            return self._last is not None and self._last.last_batch(mark) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch of the mark's generation, -1 for none; read-only, so one that may be committed counts."""
        with asking(self.name, self.shape.topic):
            found = last_commit(self.cluster, mark)
        known = (commit for commit in (found.commit, found.hidden) if commit is not None)
        return max((commit.batch_id for commit in known if commit.generation == mark.generation), default=-1)

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the commit topic."""
        with asking(self.name, self.shape.topic):
            return last_writer_of(self.cluster, mark, self.shape.topic or "")

    def check_start(self) -> None:
        """Check that the brokers accept the login, and that the topic exists."""
        check_topic(self.cluster, self.shape, step=self.name)

    def raise_fence(self, mark: BatchMark) -> None:
        """Does nothing: records cannot be removed, and the first batch's `initTransactions` fences stalled drivers."""

    def prepare(self, rows: DataFrame) -> None:
        """Register the schema of Avro and Protobuf values."""
        _ = records(rows, self.shape, step=self.name, ids=self._schemas())

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch and send it in a transaction that stays open, invisible to read_committed consumers."""
        partitions = known_partitions(self.cluster, self.shape, self.name)
        made = records(batch, self.shape, step=self.name, partitions=partitions, ids=self._schemas())
        with self._errors(mark, made):
            producer = self._ready(mark)
            self._opened = time.monotonic()
            rows = producer.send(made, mark)
        return Staged(
            lambda: self._commit(producer, mark, noted(mark, rows, self.shape.topic or ""), made) if rows else 0
        )

    def check_begin(self, begun: BatchMark) -> str:
        """A warning if earlier generations have sent to the topic: their records stay, and are sent again."""
        last = last_commit(self.cluster, begun).commit
        earlier = last is not None and last.generation < begun.generation and last.batch_id >= 0
        return sent_again(self.name, self.location()) if earlier else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if the topic has other records than those of the batches up to `kept`; read-only."""
        found = last_commit(self.cluster, kept)
        if found.commit is not None:
            found.commit.last_batch(begun)
        refuse_return(found.hidden, kept, -1, step=self.name)
        refuse_return(found.commit, kept, had, step=self.name)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Only records the new generation: sent records stay."""
        with self._errors(begun):
            producer = self._ready(begun)
        refuse_return(self._last, kept, had, step=self.name)
        with self._errors(begun):
            self._opened = time.monotonic()
            producer.begin()
        self._commit(producer, begun, noted_return(self._last, kept, begun, self.shape.topic or ""))
        return "had nothing to undo"

    def close(self) -> None:
        """Abort an open transaction and close the connection; may be called twice, and raises nothing."""
        producer, self._producer = self._producer, None
        if producer is not None:
            _end(producer)

    def _schemas(self) -> SchemaIds | None:
        """The ids of schemas, which are registered once a run."""
        if self._ids is None and self.shape.subject is not None:
            self._ids = SchemaIds(self.shape.subject, self.name)
        return self._ids

    def _ready(self, mark: BatchMark) -> Producer:
        """The producer; making one (first call, or after it expired) fences off others and reads the last commit."""
        idle = time.monotonic() - self._used
        if self._producer is not None and idle > IDLE_S and not self._producer.alive(COMMITS):
            self.close()
        if self._producer is None:
            self._producer, noted = self._begun(mark)
            if self._last is not None and (noted is None or noted.place < self._last.place):
                raise notes_gone(mark, step=self.name)
            self._last = noted
        self._used = time.monotonic()
        return self._producer

    def _begun(self, mark: BatchMark) -> tuple[Producer, Commit | None]:
        with connected(self.cluster) as admin:
            ensure_topic(admin)
        # An old driver that wakes up late must not fence off its successor.
        known = last_commit(self.cluster, mark).commit
        if known is not None:
            known.last_batch(mark)
        made = JvmProducer if tasks_share_producers(SparkContext.getOrCreate()) else PythonProducer
        producer = made(
            transactional_id=f"{mark.pipeline_id}/{mark.sink}",
            cluster=self.cluster,
            settings={**TRANSACTIONAL, **self.options},
        )
        try:
            producer.connect()
            # Only now: the previous producer's transaction is committed or aborted. On an error there is no producer.
            return producer, settled_commit(self.cluster, mark)
        except BaseException:
            _end(producer)
            raise

    def _commit(self, producer: Producer, mark: BatchMark, note: Commit, sent: DataFrame | None = None) -> int:
        with self._errors(mark, sent):
            producer.commit(COMMITS, key=key_of(mark), value=note.dumped())
        self._last, self._used = note, time.monotonic()
        return note.rows

    @contextmanager
    def _errors(self, mark: BatchMark, sent: DataFrame | None = None) -> Iterator[None]:
        """Turn a producer's errors into ours; after any error it is discarded, with its transaction.

        Its transaction is lost, or a task that was cut off may still be sending.
        """
        try:
            yield
        except ProducerFailed as failed:
            self.close()
            raise self._attempt(mark, sent).error(failed) from failed
        except SourceReadError as refused:
            self.close()
            raise cannot_be_written(refused, step=self.name, topic=self.shape.topic) from refused
        except BaseException:
            self.close()
            raise

    def _attempt(self, mark: BatchMark, sent: DataFrame | None) -> Attempt:
        settings = {**TRANSACTIONAL, **self.options}
        return Attempt(
            cluster=self.cluster,
            step=self.name,
            topic=self.shape.topic or self.shape.topic_field,
            mark=mark,
            took_s=time.monotonic() - self._opened,
            timeout_s=int(settings["transaction.timeout.ms"]) / 1000,
            sent=sent,
        )


def _end(producer: Producer) -> None:
    """Abort and close without raising. If aborting fails, the next start or the broker's timeout aborts."""

    def end() -> None:
        left = 0
        # After a commit that timed out a client refuses to abort: then nothing more may be sent.
        with suppress(Exception):
            producer.abort()
            left = END_S
        with suppress(Exception):
            producer.close(left)

    # Aborting may block without limit.
    ending = threading.Thread(target=end, name="end of a Kafka producer", daemon=True)
    ending.start()
    ending.join(END_S)
