"""One attempt to run a pipeline: the lease, the manifest, the checks before it, its queries, and the end of it."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rs_assets.engine.background import Troubles
from rs_assets.engine.checkpoint import manifest as manifests
from rs_assets.engine.checkpoint.catalog import Catalog, operation
from rs_assets.engine.checkpoint.lease import Lease
from rs_assets.engine.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.engine.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.engine.checkpoint.storage import storage_named
from rs_assets.engine.sink.base import Claim, Closing, SinkWriter
from rs_assets.engine.sink.dead_letters import DeadLetters
from rs_assets.engine.source.kafka.losses import Loss, listed
from rs_assets.engine.source.policy import BadRecords
from rs_assets.errors import ConfigurationError
from rs_assets.pipeline.compile.plan import QueryPlan, plan_queries
from rs_assets.pipeline.compile.readers import stream
from rs_assets.pipeline.compile.sink import writer_of
from rs_assets.pipeline.compile.wiring import Flow, Wiring
from rs_assets.pipeline.runtime.behind import before_python
from rs_assets.pipeline.runtime.bookkeeping import Bookkeeper
from rs_assets.pipeline.runtime.gates import StreamGates
from rs_assets.pipeline.runtime.groups import NOT_SHOWN, GroupMirror
from rs_assets.pipeline.runtime.journal import Journal
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.pipeline.runtime.purging import NOT_PURGED, ShufflePurge
from rs_assets.pipeline.runtime.query import QueryRun
from rs_assets.pipeline.runtime.repartition import StateSum, repartition
from rs_assets.pipeline.runtime.report import RunReport, unused
from rs_assets.pipeline.runtime.sink_notes import SinkNotes
from rs_assets.pipeline.runtime.state import preview, snapshot_state
from rs_assets.pipeline.runtime.tidying import NOT_TIDY, tidy_crowded
from rs_assets.pipeline.runtime.topics import TopicWatch, Watched
from rs_assets.pipeline.runtime.travel import savepoint
from rs_assets.pipeline.topology.shuffle import ShuffleWrite
from rs_assets.pipeline.topology.sink import DeltaSink, FileSink, Sink
from rs_assets.pipeline.topology.source import Source
from rs_assets.pipeline.topology.topology import Topology

# What is not done when work beside the batches fails.
NOT_SAVED, NOT_AS_ROWS = "no savepoint was taken", "the state was not written as rows"
STRICTEST = (BadRecords.FAIL, BadRecords.DEAD_LETTER, BadRecords.QUARANTINE, BadRecords.SKIP)


class JobSession:
    """One run; a context manager that ends it. Nothing is written before every check of `opening` has passed."""

    def __init__(self, topology: Topology, options: RunOptions) -> None:
        self.topology = topology
        self.options = options
        self.plans = plan_queries(topology)
        self.folder = options.home.job(topology.namespace, topology.job)
        self.queries: dict[str, QueryRun] = {}
        self.folders: Mapping[str, str] = {}
        self._writers: dict[str, SinkWriter] = {}
        self._stack = ExitStack()
        self._began = time.monotonic()
        self.manifest = Manifest.new()
        self.lease: Lease | None = None
        self.claim: Claim | None = None
        self.catalog = Catalog(options.home.catalog)
        self.recovered_from = ""
        # The sinks that remember their batches.
        self.remembering: frozenset[str] = frozenset()
        self.warnings: tuple[str, ...] = ()
        self.previews: Mapping[str, pa.Table] = {}
        self.journal: Journal | None = None
        self.troubles = Troubles(self.folder)
        self.mirror = GroupMirror(topology)
        self.purge: ShufflePurge | None = None
        self._changing = threading.RLock()

    def begin(self) -> None:
        """Take the lease, and begin to write down what happens; `opening.opened` does this and all that follows."""
        options = self.options
        lease = Lease.acquire(
            options.home.leases, pipeline=self.topology.name, run_id=options.run_id, ttl=options.lease_ttl
        )
        lease.troubles = self.troubles
        self.lease = self._stack.enter_context(lease)
        storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
        self.troubles.begin()
        self.journal = Journal(self.catalog, storage, self.troubles)
        self.journal.follow(NOT_SHOWN, self.mirror)
        self._stack.callback(self.mirror.close)
        self._stack.callback(self.journal.close)

    def close(self) -> None:
        """Stop what still runs and give the lease back; may be called twice."""
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
        self.close()

    def facts(self, plan: QueryPlan) -> QueryFacts:
        """What the manifest knows of the query."""
        return self.manifest.queries[self.folders[plan.name]]

    def log(self, plan: QueryPlan) -> CheckpointLog:
        """Spark's log of one query."""
        return CheckpointLog(self.query_folder(plan) / "checkpoint", self.manifest.aliases)

    def query_folder(self, plan: QueryPlan) -> Path:
        """The folder of one query, in the generation that it is in."""
        return self.manifest.place(self.folder, self.folders[plan.name])

    @property
    def held(self) -> Lease:
        """The lease, while the session is entered."""
        assert self.lease is not None  # noqa: S101  taken on entry
        return self.lease

    # Wiring: on the Spark driver's thread.

    def prepare(self, spark: SparkSession) -> None:
        """Make the queries, so that nodes can be wired."""
        if self.manifest.rescaling:
            self.finish_rescale(spark)
            self.note("rescale", f"finished what was cut short: {self.manifest.partitions} partitions")
        self._pin_partitions(spark)
        self._follow_shuffles()
        self.queries = {plan.name: self._query(spark, plan) for plan in self.plans}

    def finish_rescale(self, spark: SparkSession) -> dict[str, StateSum]:
        """Give every stateful query the number of partitions that the manifest is being changed to."""
        logs = {plan.name: self.log(plan) for plan in self.plans if plan.stateful is not None}
        sums = repartition(spark, logs, self.manifest.rescaling, behind=self.held.check)
        self.manifest = replace(self.manifest, partitions=self.manifest.rescaling, rescaling=0)
        self.save()
        return sums

    def _follow_shuffles(self) -> None:
        if self.topology.shuffled and self.journal is not None:
            logs = {plan.name: self.log(plan) for plan in self.plans}
            self.purge = ShufflePurge(self.topology, self.plans, logs, self.options.home)
            self.journal.follow(NOT_PURGED, self.purge)

    def _pin_partitions(self, spark: SparkSession) -> None:
        """State keeps the number of partitions it was begun with, whatever this session or machine would choose."""
        asked, kept = self.options.partitions, self.manifest.partitions
        if asked and kept and asked != kept:
            raise ConfigurationError(
                f"the state of this pipeline has {kept} partitions, {asked} were asked for",
                remedy="leave the number out, or begin a new generation (--new-generation)",
                pipeline=self.topology.name,
            )
        if not kept:
            self.manifest = replace(self.manifest, partitions=asked or default_partitions(spark))
            self.save()

    def wire(self, name: str, inputs: Mapping[str, Mapping[str, Flow]] | None = None) -> Mapping[str, Flow]:
        """Compile the node `name` for every query that it belongs to; gives its flows, by query.

        `inputs` are the flows of its inputs; those that were wired in this session are known anyway.
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

    def _query(self, spark: SparkSession, plan: QueryPlan) -> QueryRun:
        folder, facts = self.query_folder(plan), self.facts(plan)
        wiring = self._wiring(spark, plan, folder)
        return QueryRun(
            topology=self.topology,
            plan=before_python(self.topology, plan) if wiring.quarantines else plan,
            wiring=wiring,
            folder=folder,
            pipeline_id=self.manifest.pipeline_id,
            generation=facts.generation,
            aliases=self.manifest.aliases,
            partitions=self.manifest.partitions,
            lease=self.held,
            claim=self.claim,
            book=self.book_of(plan),
            writers={name: self.writer(name) for name in plan.sinks},
            letters=DeadLetters(self.options.home.dead_letters),
            on_progress=self.options.on_progress,
            rows_open=facts.rows_open,
            topics=self._topic_watch(plan),
            notes=SinkNotes({n: facts.sinks[n] for n in plan.sinks if n in self.remembering}, self._noting(plan)),
        )

    def _noting(self, plan: QueryPlan) -> Callable[[Mapping[str, int]], None]:
        """Writes down what the sinks of a query have had; called by batches."""
        folder = self.folders[plan.name]

        def save(had: Mapping[str, int]) -> None:
            def noted(manifest: Manifest) -> Manifest:
                facts = manifest.queries[folder]
                return manifest.with_query(folder, replace(facts, sinks={**facts.sinks, **had}))

            self.change(noted)

        return save

    def _topic_watch(self, plan: QueryPlan) -> TopicWatch:
        watch = TopicWatch(
            sources=Watched.of(node for node in self.topology.sources if node.name in plan.sources),
            known=lambda: self.manifest.inputs,
            log=self.log(plan),
            keep=self.keep_input,
            note=self.note_loss,
        )
        self._stack.callback(watch.close)
        return watch

    def book_of(self, plan: QueryPlan) -> Bookkeeper:
        """The bookkeeper of one query."""
        assert self.journal is not None  # noqa: S101  made on entry
        return Bookkeeper(
            topology=self.topology,
            plan=plan,
            log=self.log(plan),
            folder=self.folders[plan.name],
            generation=self.facts(plan).generation,
            run_id=self.options.run_id,
            journal=self.journal,
        )

    def writer(self, name: str) -> SinkWriter:
        """The writer of a sink, with the connector that the run asks for.

        One for the whole session, so that it knows at each batch what the start has seen; those that hold a connection
        are made anew with their query.
        """
        if name in self._writers:
            return self._writers[name]
        node = self.topology[name]
        assert isinstance(node, Sink)  # noqa: S101  plans name sinks
        if isinstance(node, DeltaSink) and self.options.connector:
            node = replace(node, connector=self.options.connector)
        made = writer_of(node, self.options.home, self.topology.namespace)
        if isinstance(made, Closing):
            self._stack.callback(made.close)
        else:
            self._writers[name] = made
        return made

    def _wiring(self, spark: SparkSession, plan: QueryPlan, folder: Path) -> Wiring:
        read = self.topology.origins
        # What comes through a shuffle has come from any of them.
        own = [source for source in read if source.name in plan.sources]
        policies = {source.bad_records for source in (own if len(own) == len(plan.sources) else read)}
        policy = next(p for p in STRICTEST if p in policies)
        return Wiring(
            spark=spark,
            folder=folder,
            read=stream,
            gates=StreamGates(plan.shared(self.topology)),
            pinned=self._pinned,
            stored_name=self.manifest.stored_name,
            policy=policy,
            quarantines=policy is BadRecords.QUARANTINE,
            ordered=any(isinstance(s, DeltaSink) and s.read_order for s in map(self.topology.__getitem__, plan.sinks)),
            poisons=self.poisons(plan),
            max_line_bytes=self.options.max_line_bytes,
            home=self.options.home,
            behind=self._behind,
        )

    def poisons(self, plan: QueryPlan) -> Mapping[str, Mapping[str, str]]:
        """What `Wiring.poisons` of a query must be: all that the manifest knows, if a batch is not committed yet.

        Its dead letters may have been written with all of them. Otherwise they have served: the plan stays small, and a
        poison that comes again is found again.
        """
        log = self.log(plan)
        made: dict[str, dict[str, str]] = defaultdict(dict)
        if log.offsets(log.last_committed() + 1) is not None:
            for poison in self.facts(plan).poisons:
                made[poison["source"]][poison["digest"]] = poison["reason"]
        return made

    def _behind(self, step: str) -> StructType:
        """The schema of what goes into a durable shuffle; the query that writes it was wired before."""
        return next(query.flows[step] for query in self.queries.values() if step in query.flows).df.schema

    def _pinned(self, source: Source, infer: Callable[[], StructType]) -> StructType:
        """The schema that was inferred once for `source`; a restart must read the same one."""
        stored = self.manifest.schemas.get(source.name)
        if stored is not None:
            return StructType.fromJson(json.loads(stored))
        schema = infer()
        self.manifest = replace(self.manifest, schemas={**self.manifest.schemas, source.name: schema.json()})
        self.save()
        return schema

    # The end.

    def record(self, *, sealed: bool) -> RunReport:
        """Write down what was read, and sum up."""
        inputs = {name: dict(files) for name, files in self.manifest.inputs.items()}
        for query in self.queries.values():
            for name, files in query.read_files.items():
                inputs.setdefault(name, {}).update(files)
        assert self.journal is not None  # noqa: S101  made on entry
        if sealed and not self.manifest.sealed:
            for query in self.queries.values():
                query.book.finished()
        self.journal.close()
        with self.troubles.guarding(NOT_TIDY):
            tidy_crowded(self)
        with self.troubles.guarding(NOT_SHOWN):
            self.mirror.finish()
        if self.purge is not None:
            with self.troubles.guarding(NOT_PURGED):
                self.purge.purge()
        sealed = self.manifest.sealed or sealed
        self.manifest = replace(self.manifest, inputs=inputs, sealed=sealed)
        for query in self.queries.values():
            facts = self.facts(query.plan)
            folder = self.folders[query.plan.name]
            known = replace(
                facts,
                rows_open=query.report.rows_open,
                query_id=query.log.query_id,
                sinks={**facts.sinks, **query.notes.had},
                catalogued=self.journal.written.get(folder, facts.catalogued),
            )
            self.manifest = self.manifest.with_query(folder, known)
        self.save()
        self._save_by_policy()
        self.previews = self._previews()
        return self.report()

    def _save_by_policy(self) -> None:
        """A savepoint at the end, if the policy says so; one that fails is told of and does not undo the run."""
        policy = self.options.savepoints
        if not policy.at_end or policy.local_storage_only or not any(q.report.batches for q in self.queries.values()):
            return
        if not self.topology.shuffled:
            with self.troubles.guarding(NOT_SAVED):
                savepoint(self.topology, self.options, note="end of the run")
        if policy.state_rows and any(plan.stateful for plan in self.plans):
            with self.troubles.guarding(NOT_AS_ROWS):
                snapshot_state(self.topology, self.options)

    def _previews(self) -> dict[str, pa.Table]:
        wanted = self.options.preview_rows
        open_now = [p.stateful for p in self.plans if p.stateful and wanted and self.queries[p.name].report.rows_open]
        return {step: preview(self.topology, step, self.options, rows=wanted) for step in open_now}

    def report(self) -> RunReport:
        """What happened so far."""
        return RunReport(
            pipeline=self.topology.name,
            run_id=self.options.run_id,
            generation=self.manifest.generation,
            seconds=time.monotonic() - self._began,
            sealed=self.manifest.sealed,
            recovered_from=self.recovered_from,
            previews=self.previews,
            warnings=(*self.warnings, *self.troubles.warnings, *unused(q.report for q in self.queries.values())),
            queries=tuple(q.report for q in self.queries.values()),
            shuffles=frozenset(s.name for s in self.topology.sinks if isinstance(s, ShuffleWrite)),
            tables=self.tables(),
        )

    def tables(self) -> dict[str, str]:
        """Where each sink's rows lie."""
        return {
            s.name: self.writer(s.name).location() for s in self.topology.sinks if isinstance(s, DeltaSink | FileSink)
        }

    def note(self, kind: str, summary: str, **details: object) -> None:
        """Write what was done to the pipeline, besides running it, into the catalog."""
        generation, run_id = self.manifest.generation, self.options.run_id
        row = operation(self.topology.name, generation=generation, run_id=run_id, kind=kind, summary=summary, **details)
        self.catalog.append("operations", [row])

    def note_loss(self, source: str, lost: Sequence[Loss]) -> None:
        """Write down what was lost, and say it at the end of the run."""
        summary = f"records of {source} were lost: {listed(lost)}"
        self.note("data_loss", summary, source=source, ranges=[str(loss) for loss in lost])
        self.warnings = (*self.warnings, summary)

    def keep_input(self, source: str, facts: Mapping[str, int]) -> None:
        """Add to what the manifest has of a source's input, from a batch that has read it and is not committed yet."""

        def with_input(manifest: Manifest) -> Manifest:
            kept = {**manifest.inputs.get(source, {}), **facts}
            return replace(manifest, inputs={**manifest.inputs, source: kept})

        self.change(with_input)

    def change(self, made: Callable[[Manifest], Manifest]) -> None:
        """Replace the manifest by what `made` makes of it, and save it; while queries run, each on its own thread."""
        with self._changing:
            self.manifest = made(self.manifest)
            self.save()

    def save(self) -> None:
        """Make the manifest durable; LeaseLostError if it is another driver's by now."""
        self.held.check()
        manifests.save(self.folder, self.manifest)


def default_partitions(spark: SparkSession) -> int:
    """What the session was made with; a query that ran in it before may have set another number since."""
    made_with = spark.sparkContext.getConf().get(PARTITIONS, None)
    return int(made_with or spark.conf.get(PARTITIONS) or 1)
