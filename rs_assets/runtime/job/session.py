"""One attempt to run a pipeline: the lease, the manifest, the checks, its queries, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession

from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog, operation
from rs_assets.catalog.desired_state import DesiredState, read_desired_state, request_run, write_desired_state
from rs_assets.catalog.lease import Lease, LeaseRow
from rs_assets.catalog.offsets import storage_named
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.background import BackgroundFailures
from rs_assets.common.extras import check_extra
from rs_assets.common.plural import count_of
from rs_assets.compile.late_sinks import closing, unmarked
from rs_assets.compile.planner.context import Flow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import reader_of
from rs_assets.compile.sink import by_connector, writer_of
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.sink import Claim, Closing, SinkWriter
from rs_assets.connectors.source import BEGIN_ANEW, Keeping, Known, SourceReader, listed
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError, SealedError
from rs_assets.operators.state.exchange import Exchange
from rs_assets.recovery.savepoints import SavepointStore
from rs_assets.recovery.uploads import Uploader, adopt_held
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job.asked import as_asked
from rs_assets.runtime.job.dimensions import Dimensions, dimensions_of
from rs_assets.runtime.job.ended import ended
from rs_assets.runtime.job.needed import needed_offsets
from rs_assets.runtime.job.queries import query_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.record.exporters import counted, listening
from rs_assets.runtime.record.following import Following, followings
from rs_assets.runtime.record.journal import Flush, Journal
from rs_assets.runtime.report import QueryReport, RunReport, long_ago, unfired, unmet, unread, unused, unwaited
from rs_assets.runtime.upkeep import beside
from rs_assets.runtime.upkeep.repartition import StateSum, repartition
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.topology import Topology

NOT_FETCHED = "the next start must read the state from the object store"
NOT_WRITTEN = "the stream may be started again, because its stop could not be recorded"


class JobSession:
    """One run; a context manager that ends it. Nothing is written before every check of `opening` has passed.

    `writers` replace those of some sinks, as in a test.
    """

    def __init__(
        self, topology: Topology, options: RunOptions, writers: Mapping[str, SinkWriter] = MappingProxyType({})
    ) -> None:
        self.topology = as_asked(topology, options)
        self.options = options
        self.plans = plan_queries(self.topology)
        self.folder = options.home.job(topology.namespace, topology.job)
        self.queries: dict[str, QueryRun] = {}
        self.folders: Mapping[str, str] = {}
        self.replaced = frozenset(writers)
        self._writers: dict[str, SinkWriter] = {**writers}
        self._stack = ExitStack()
        self._began = time.monotonic()
        self.manifest = Manifest.new()
        self.lease: Lease | None = None
        self.desired: DesiredState | None = None
        self.claim: Claim | None = None
        self.catalog = Catalog(options.home.catalog)
        self.recovered_from = ""
        # The last batch of each query, if the run needs none: there are no queries then, and no Spark.
        self.unchanged_since: Mapping[str, int] = {}
        # The sinks that store their batches.
        self.remembering: frozenset[str] = frozenset()
        self.warnings: tuple[str, ...] = ()
        self.previews: Mapping[str, pa.Table] = {}
        self.journal: Journal | None = None
        self.failures = BackgroundFailures(self.folder)
        self.followings: list[Following] = []
        self.uploader: Uploader | None = None
        self.dimensions = Dimensions()
        self._changing = threading.RLock()
        # Whether `ending.record` has summed up the run, and what ended it before that.
        self.recorded = False
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Take the lease, and begin to record events; `opening.opened` calls this and does all that follows."""
        options = self.options
        name, ttl = self.topology.name, options.lease_ttl
        lease = Lease.acquire(options.home.leases, pipeline=name, run_id=options.run_id, ttl=ttl, within=self._stack)
        lease.failures = self.failures
        self.lease = lease.__enter__()
        self._note_end(lease.before)
        queries = {plan.name: plan.sinks for plan in self.plans}
        self.options = self._stack.enter_context(counted(options, self.topology.name, self.failures, queries))
        storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
        self.failures.begin()
        flush = Flush(batches=options.flush_batches, after=options.flush_after)
        self.journal = Journal(self.catalog, storage, self.failures, flush=flush)
        self.at_end(self._close_followings)
        self.at_end(self.journal.close)

    def _note_end(self, before: LeaseRow | None) -> None:
        """Record how long the stream has lived: its lease, which shows it, is replaced now."""
        desired = read_desired_state(self.folder)
        if before is not None and desired is not None and not desired.stopped and desired.run_id == before.run_id:
            with self.failures.guarding(NOT_WRITTEN):
                write_desired_state(self.folder, replace(desired, at=max(desired.at, before.renewed_at.timestamp())))

    def run_on(self, *, answers: str | None = None) -> None:
        """Record that this run is to go on as the stream of its pipeline, until it fails or `request_stop`.

        With `answers` it restarts a stream; the value is the id of the last request at that time, empty without one.
        PipelineBusyError if there was another request since, since the stream is not to be restarted then. SealedError
        if its input has ended and there may be more.
        """
        self._refuse_ended()
        desired = read_desired_state(self.folder)
        if answers is not None and answers != (desired.id if desired is not None else ""):
            raise PipelineBusyError(
                f"{self.topology.name} was started or stopped by another request meanwhile",
                remedy="nothing to do: this start is no longer requested",
                run=desired.run_id if desired is not None else None,
            )
        self.held.check()
        # Those to an earlier run; one that comes while this run starts is its own.
        requests.clear(self.folder, "stop")
        requests.clear(self.folder, "resume")
        requests.clear(self.folder, "rescale")
        self.desired = request_run(self.folder, self.options.run_id, self.options.interval)

    @property
    def ended_queries(self) -> frozenset[str]:
        """The names of the queries whose input has ended, although no run has recorded it; see `ended`."""
        return ended((plan, self.log(plan)) for plan in self.plans)

    def _refuse_ended(self) -> None:
        if self.topology.bounded:
            return
        if self.manifest.sealed or self.ended_queries:
            raise SealedError(
                "the input has ended, so a stream would take all further rows for late",
                remedy=BEGIN_ANEW,
                pipeline=self.topology.name,
            )

    def request_stop(self) -> None:
        """Record that a stop of this stream was requested, so that it is not started again."""
        if self.desired is None or self.desired.stopped:
            return
        with self.failures.guarding(NOT_WRITTEN):
            self.held.check()
            self.desired = self.desired.stop(now=time.time())
            write_desired_state(self.folder, self.desired)

    def at_end(self, do: Callable[[], None]) -> None:
        """Call `do` when the session is closed, before earlier callbacks."""
        self._stack.callback(do)

    def close(self) -> None:
        """Stop running queries and release the lease; may be called twice."""
        try:
            # Without a query there may be no Spark either, and none is started for this.
            if self.queries:
                self.options.driver.call(lambda _: self.stop_queries())
        finally:
            self._stack.close()

    def __enter__(self) -> Self:
        """The session, which `opening.opened` has begun."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.error = error
        self.close()

    def facts(self, plan: QueryPlan) -> QueryFacts:
        """The stored state of the query in the manifest."""
        return self.manifest.queries[self.folders[plan.name]]

    def log(self, plan: QueryPlan) -> CheckpointLog:
        """Spark's log of one query."""
        return CheckpointLog(self.query_folder(plan) / "checkpoint", self.manifest.aliases)

    def query_folder(self, plan: QueryPlan) -> Path:
        """The folder of one query, in its generation."""
        return self.manifest.place(self.folder, self.folders[plan.name])

    def exchange(self, plan: QueryPlan) -> Exchange | None:
        """The state of a query in an object store, if the machines of the cluster share none of its folders.

        At the end of the session its home is complete; if that fails, the next start completes it.
        """
        root = self.options.home.exchange
        if root is None or not (plan.stateful or plan.controls):
            return None
        topology = self.topology
        run = f"{self.held.token:012d}-{self.options.run_id}"
        place = root / topology.namespace / topology.job / self.manifest.pipeline_id / run / self.folders[plan.name]
        made = Exchange(query=self.query_folder(plan).absolute(), place=place)

        def end() -> None:
            with self.failures.guarding(NOT_FETCHED):
                made.end()

        self.at_end(end)
        return made

    @property
    def held(self) -> Lease:
        """The lease, while the session is entered."""
        assert self.lease is not None  # taken on entry
        return self.lease

    # Compilation: on the Spark driver's thread.

    def prepare(self, spark: SparkSession) -> None:
        """Make the queries, so that nodes can be wired."""
        beside.remove(self.folder)
        if self.manifest.rescaling:
            self.finish_rescale(spark)
            done = count_of(self.manifest.partitions, "partition")
            self.note("rescale", f"completed an interrupted rescale: {done}")
        self._pin_partitions(spark)
        self.follow_sources()
        self._load_dimensions(spark)
        self._announce()
        self.queries = {plan.name: query_of(self, spark, plan) for plan in self.plans}

    def _announce(self) -> None:
        """Send events of lineage from now to the end of the session, if the run is to send them."""
        if not self.options.openlineage:
            return
        check_extra("openlineage", "lineage by OpenLineage")
        from rs_assets.runtime.record.lineage import NOT_MADE, LineageEvents, Outcome

        def end() -> None:
            failed = (query.failure for query in self.queries.values() if query.failure is not None)
            events.end(Outcome(self.recorded, next(failed, self.error)))

        with self.failures.guarding(NOT_MADE):
            events = LineageEvents(
                self.topology,
                self.options.home,
                run_id=self.options.run_id,
                processing="BATCH" if self.desired is None else "STREAMING",
                failures=self.failures,
            )
            events.begin()
            self.options = listening(self.options, events)
            self.at_end(end)

    def _load_dimensions(self, spark: SparkSession) -> None:
        """Load the dimensions, and store their inferred schemas."""
        home = self.options.home
        adopt_held(self.folder, home.dimensions(self.topology.namespace, self.topology.job))
        self.dimensions = dimensions_of(self.topology, home, spark, self.failures, self.manifest.schemas)
        self.at_end(self.dimensions.close)
        self.dimensions.begin()
        found = {step: each.held.schema.json() for step, each in self.dimensions.by_step.items() if each.undeclared}
        if found.items() - self.manifest.schemas.items():
            self.manifest = replace(self.manifest, schemas={**self.manifest.schemas, **found})
            self.save()

    def finish_rescale(self, spark: SparkSession) -> dict[str, StateSum]:
        """Give every stateful query the number of partitions that the manifest is being changed to."""
        logs = {plan.name: self.log(plan) for plan in self.plans if plan.stateful is not None}
        before, wanted = self.manifest.partitions, self.manifest.rescaling
        sums = repartition(spark, logs, before, wanted, after_each=self.held.check)
        self.manifest = replace(self.manifest, partitions=wanted, rescaling=0)
        self.save()
        beside.remove(self.folder)
        return sums

    def _close_followings(self) -> None:
        for following in self.followings:
            following.close()

    def follow_sources(self) -> None:
        """Let the sources' systems be informed of committed offsets."""
        assert self.journal is not None  # made on entry
        self.followings = followings(self.readers, [(plan, self.log(plan)) for plan in self.plans])
        for following in self.followings:
            for source, follower in following.followers.items():
                if isinstance(follower, Keeping):
                    follower.keep_for(partial(self._needed, following.logs[source].values()))
            self.journal.follow(following.effect, following)

    def _needed(self, logs: Collection[SourceLog]) -> Sequence[str | None]:
        """The offsets to which a source can still be asked to go back."""
        store = SavepointStore(self.options.savepoints.uri or self.options.home.savepoints)
        return needed_offsets(store, self.topology.namespace, self.topology.job, [*logs])

    def _pin_partitions(self, spark: SparkSession) -> None:
        """State keeps its first number of partitions, whatever this session or machine would choose."""
        asked, kept = self.options.partitions, self.manifest.partitions
        if asked and kept and asked != kept:
            raise ConfigurationError(
                f"the state of this pipeline has {count_of(kept, 'partition')}; requested: {asked}",
                remedy="leave the number out, or begin a new generation (--new-generation)",
                pipeline=self.topology.name,
            )
        if not kept:
            self.manifest = replace(self.manifest, partitions=asked or default_partitions(spark))
            self.save()

    def wire(self, name: str, inputs: Mapping[str, Mapping[str, Flow]] | None = None) -> Mapping[str, Flow]:
        """Compile the node `name` for every query that has it; returns its flows, by query.

        `inputs` are the flows of its inputs; those wired in this session are known anyway.
        """
        members = [query for query in self.queries.values() if name in query.plan.nodes]
        for query in members:
            for step, flows in (inputs or {}).items():
                query.flows.setdefault(step, flows[query.plan.name])
        return {query.plan.name: query.wire(name) for query in members}

    def stop_queries(self) -> None:
        """Stop all queries at once."""
        for query in self.queries.values():
            query.stop()

    def reader(self, name: str) -> SourceReader:
        """The reader of a source."""
        node = self.topology[name]
        assert isinstance(node, Source)  # plans name sources
        return reader_of(node, self.options.home)

    @property
    def readers(self) -> dict[str, SourceReader]:
        """The readers of all sources."""
        return {source.name: self.reader(source.name) for source in self.topology.sources}

    def writer(self, name: str) -> SinkWriter:
        """The writer of a sink, with the connector that the run asks for.

        One for the whole session, so that each batch can use what the start has read; writers with a connection are
        made again with their query.
        """
        if name in self._writers:
            return self._writers[name]
        node = self.topology[name]
        assert isinstance(node, Sink)  # plans name sinks
        made = writer_of(by_connector(node, self.options.connector), self.options.home, self.topology.namespace)
        if isinstance(made, Closing):
            self.at_end(made.close)
        else:
            self._writers[name] = made
        return made

    def report(self) -> RunReport:
        """The report so far."""
        reports = tuple(map(self.report_of, self.plans))
        timed = [self.report_of(plan) for plan in self.plans if closing(self.topology, plan)]
        ended = unfired(timed) if self.manifest.sealed else ()
        idle = unread(reports, changed=self.manifest.code not in ("", self.topology.code))
        late = unwaited(reports, {plan.name: unmarked(self.topology, plan) for plan in self.plans})
        missed = unmet(reports, {node.name: node.on_fail.value for node in self.topology if isinstance(node, Expect)})
        steps = {plan.name: plan.watermark_steps for plan in self.plans}
        late += long_ago(reports, steps, {plan.name: plan.time_fields(self.topology) for plan in self.plans})
        return RunReport(
            pipeline=self.topology.name,
            run_id=self.options.run_id,
            generation=self.manifest.generation,
            seconds=time.monotonic() - self._began,
            sealed=self.manifest.sealed,
            recovered_from=self.recovered_from,
            unchanged_since=self.unchanged_since,
            previews=self.previews,
            warnings=(*self.warnings, *self.failures.warnings, *unused(reports), *missed, *idle, *late, *ended),
            queries=reports,
            shuffles=frozenset(s.name for s in self.topology.sinks if isinstance(s, ShuffleWrite)),
            tables=self.tables(),
        )

    def report_of(self, plan: QueryPlan) -> QueryReport:
        """The report of one query so far; a query that is not needed has what is open in its state."""
        query = self.queries.get(plan.name)
        return query.report if query is not None else QueryReport(query=plan.name, rows_open=self.facts(plan).rows_open)

    @property
    def computing_s(self) -> float:
        """For how many seconds the oldest batch in flight has been computed, 0 without one; on any thread."""
        return max((query.computing_s for query in tuple(self.queries.values())), default=0.0)

    def tables(self) -> dict[str, str]:
        """The location of each sink's rows."""
        return {
            s.name: self.writer(s.name).location() for s in self.topology.sinks if isinstance(s, DeltaSink | FileSink)
        }

    def note(self, kind: str, summary: str, **details: object) -> None:
        """Record an operation on the pipeline, besides running it, in the catalog."""
        generation, run_id = self.manifest.generation, self.options.run_id
        row = operation(self.topology.name, generation=generation, run_id=run_id, kind=kind, summary=summary, **details)
        self.catalog.append("operations", [row])

    def note_loss(self, source: str, lost: Sequence[object]) -> None:
        """Record lost records, and report them at the end of the run."""
        summary = f"records of {source} were lost: {listed(lost)}"
        self.note("data_loss", summary, source=source, ranges=[str(loss) for loss in lost])
        self.warnings = (*self.warnings, summary)

    def keep_input(self, source: str, facts: Known) -> None:
        """Add to the input state of a source in the manifest, for a batch that has read it and is not committed yet."""

        def with_input(manifest: Manifest) -> Manifest:
            kept = {**manifest.inputs.get(source, {}), **facts}
            return replace(manifest, inputs={**manifest.inputs, source: kept})

        self.change(with_input)

    def change(self, made: Callable[[Manifest], Manifest]) -> None:
        """Replace the manifest by the result of `made`, and save it; queries call this, each on its own thread."""
        with self._changing:
            self.manifest = made(self.manifest)
            self.save()

    def save(self) -> None:
        """Make the manifest durable; LeaseLostError if another driver has taken over, CheckpointError if it fails."""
        self.held.check()
        try:
            manifests.save(self.folder, self.manifest)
        except OSError as error:
            raise CheckpointError(
                f"the manifest cannot be written: {error.strerror}",
                remedy="check that the disk has room and is not mounted read-only, and that this user may write there",
                file=self.folder,
            ) from error


def default_partitions(spark: SparkSession) -> int:
    """The session's configured number; an earlier query in it may have set another number since."""
    # The public getConf() copies every setting, which would be half of all JVM calls of a small pipeline.
    made_with = spark.sparkContext._conf.get(PARTITIONS, None)  # noqa: SLF001
    return int(made_with or spark.conf.get(PARTITIONS) or 1)
