"""A pipeline in Spark's real-time mode: each record is processed at once, and offsets are written every few seconds.

It has no batches of ours: Spark's own sink sends the records, at least once, and the catalog is completed from Spark's
log when the pipeline stops, or at the next start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from pyspark.sql import SparkSession

from rs_assets.catalog import requests
from rs_assets.compile.planner.realtime import check_real_time, check_slots
from rs_assets.connectors.kafka.client.admin import PATIENCE
from rs_assets.connectors.kafka.nodes import KafkaSink
from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.sink.by_tasks import intercepted, timed
from rs_assets.connectors.kafka.sink.record_time import as_named
from rs_assets.connectors.kafka.sink.records import records
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Inspectable
from rs_assets.errors import RsError
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job.ending import record
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import QueryReport, RunReport
from rs_assets.runtime.run.run import wire_all
from rs_assets.runtime.translate import translate
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Spark's minimum; it is the time between two commits of offsets, not the delay of a record.
SHORTEST = timedelta(seconds=5)
LOOK_S = 0.5
# How often the brokers are asked about the topics.
TOPICS_EVERY_S = 5.0


def start_real_time(topology: Topology, options: RunOptions) -> RealTimePipeline:
    """Start `topology` in real-time mode.

    TopologyError for an unsupported step, ConfigurationError for a session with fewer slots than partitions.
    """
    check_real_time(topology)
    session = opened(_unlimited(topology), options)
    try:
        return options.driver.call(lambda spark: _begun(session, spark))
    except BaseException:
        session.close()
        raise


@dataclass(slots=True, kw_only=True)
class RealTimePipeline:
    """The handle of a pipeline in real-time mode; a context manager that stops it."""

    session: JobSession
    query: QueryRun
    spark_query: StreamingQuery
    slots: int
    _seen: dict[int, dict[str, Any]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _failure: RsError | None = None
    _closed: bool = False
    _asked: float = 0.0

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; after an error it only ends, and its desired state stays running."""
        (self.stop if kind is None or issubclass(kind, KeyboardInterrupt) else self.end)()

    @property
    def active(self) -> bool:
        """Whether Spark runs it."""
        return not self._ended.is_set()

    def status(self) -> dict[str, Any]:
        """Spark's status of the query, and the sums so far."""
        progress = self.session.options.driver.call(lambda _: self.spark_query.lastProgress)
        made = orjson.loads(progress.json) if progress is not None else {}
        return {"query": made, **self.report().as_dict()}

    def report(self) -> RunReport:
        """The sums since the start, as of the last commit of offsets."""
        rows = sum(seen["rows"] for seen in self._seen.values())
        dead = sum(seen["dead"] for seen in self._seen.values())
        sinks = dict.fromkeys(self.query.plan.sinks, rows - dead)
        self.query.report = QueryReport(
            query=self.query.plan.name, rows_in=rows, rows_dead=dead, rows_out=sinks, batches=len(self._seen)
        )
        return self.session.report()

    def await_termination(self, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until it ends; False if `timeout_s` or `stop` came first. Raises its failure."""
        waited = 0.0
        while not self._ended.wait(LOOK_S):
            waited += LOOK_S
            if (timeout_s is not None and waited >= timeout_s) or (stop is not None and stop.is_set()):
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self, *, drain: bool = True, patience_s: float = 60) -> RunReport:  # noqa: ARG002  as a started pipeline
        """Stop at once; records sent since the last commit of offsets are sent again by the next start."""
        if not self._closed and requests.asked(self.session.folder, "stop") is None:
            self.session.request_stop()
        return self.end()

    def end(self) -> RunReport:
        """Stop as `stop` does, while the desired state stays running."""
        if self._closed:
            return self.session.report()
        self._closed = True
        self._ended.set()
        try:
            self.session.options.driver.call(lambda _: self._halt())
            self.report()
            return record(self.session, sealed=False)
        finally:
            self.session.close()

    def watch(self) -> None:
        """Collect Spark's reports, and end if the lease is lost, a stop is requested, or the query has failed."""
        while not self._ended.wait(LOOK_S):
            try:
                self.session.held.check()
                self._look_at_topics()
                running = self.session.options.driver.call(lambda _: self._look())
            except Exception as error:  # noqa: BLE001  whatever it is, the pipeline must not go on unwatched
                self._failure, running = translate(error, query=self.query.plan.name), False
                with suppress(Exception):
                    self.session.options.driver.call(lambda _: self.spark_query.stop())
            if not running or requests.asked(self.session.folder, "stop") is not None:
                self._ended.set()

    def _look_at_topics(self) -> None:
        """Raise for topics that were recreated or have lost unread records, and for partitions without a slot."""
        if time.monotonic() - self._asked < TOPICS_EVERY_S:
            return
        self._asked = time.monotonic()
        for watch in self.query.work.watches.values():
            watch.check(self.query.log.last_committed() + 1)
        check_slots(sum(watch.splits for watch in self.query.work.watches.values()), self.slots)

    def _look(self) -> bool:
        for progress in self.spark_query.recentProgress:
            made = orjson.loads(progress.json)
            gates: Mapping[str, Mapping[str, int]] = made.get("observedMetrics", {})
            counted = [gates[source] for source in self.query.plan.counted_sources if source in gates]
            self._seen[made["batchId"]] = {
                "rows": sum(gate["rows"] for gate in counted),
                "dead": sum(gate["dead"] for gate in counted),
            }
        error = self.spark_query.exception()
        if error is not None:
            raise translate(error, query=self.query.plan.name)
        return bool(self.spark_query.isActive)

    def _halt(self) -> None:
        if self._failure is None:
            self._look()
        self.spark_query.stop()
        facts, journal = self.session.facts(self.query.plan), self.session.journal
        assert journal is not None  # made on entry
        self.query.work.book.reconcile(
            catalogued=facts.catalogued, catalog=self.session.catalog, storage=journal.storage
        )
        journal.written[self.session.folders[self.query.plan.name]] = self.query.log.last_committed()


def _unlimited(topology: Topology) -> Topology:
    """The pipeline without batch limits, which real-time mode does not support."""
    return replace(topology, nodes=tuple(n.unlimited() if isinstance(n, Source) else n for n in topology))


def _begun(session: JobSession, spark: SparkSession) -> RealTimePipeline:
    slots = spark.sparkContext.defaultParallelism
    check_slots(_partitions(session), slots)
    session.run_on()
    wire_all(session, spark)
    (query,) = session.queries.values()
    running = RealTimePipeline(session=session, query=query, spark_query=_started(session, query), slots=slots)
    threading.Thread(target=running.watch, name="rs-real-time", daemon=True).start()
    return running


def _partitions(session: JobSession) -> int:
    return sum(len(reader.ends(PATIENCE)) for reader in session.readers.values() if isinstance(reader, Inspectable))


def _started(session: JobSession, query: QueryRun) -> StreamingQuery:
    (sink,) = session.topology.sinks
    assert isinstance(sink, KafkaSink)  # checked before
    rows = query.flows[sink.name].df
    # A batch lasts: Spark's clock in it is its start time.
    ids = SchemaIds(sink.shape.subject, sink.name) if sink.shape.subject is not None else None
    made = timed(records(rows, as_named(sink.shape, rows.columns), step=sink.name, ids=ids))
    options = {f"kafka.{name}": value for name, value in intercepted(sink.options).items()}
    interval = max(session.options.interval, SHORTEST)
    # PySpark's types do not have the newest trigger yet.
    trigger: Any = {"realTime": f"{interval // timedelta(milliseconds=1)} milliseconds"}
    writer = (
        made.writeStream.format("kafka")
        .queryName(f"{session.topology.name}.{query.plan.name}")
        .options(**sink.cluster.for_spark(), **options)
        .outputMode("update")
        .option("checkpointLocation", str(query.log.folder))
        .trigger(**trigger)
    )
    try:
        return writer.start()
    except Exception as error:
        raise translate(error, query=query.plan.name) from error
