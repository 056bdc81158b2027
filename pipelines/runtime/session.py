"""One attempt to run a pipeline: the lease, the manifest, the checks before it, its queries, and the end of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pipelines.compile.plan import QueryPlan, plan_queries
from pipelines.compile.readers import stream
from pipelines.compile.sink import writer_of
from pipelines.compile.wiring import Flow, Wiring
from pipelines.runtime.bookkeeping import Bookkeeper
from pipelines.runtime.gates import StreamGates
from pipelines.runtime.identity import resumed
from pipelines.runtime.inputs import check_inputs, digest
from pipelines.runtime.journal import Journal
from pipelines.runtime.options import RunOptions
from pipelines.runtime.preflight import findings
from pipelines.runtime.query import QueryRun
from pipelines.runtime.report import RunReport
from pipelines.runtime.state import preview, snapshot_state
from pipelines.runtime.travel import bring_back, savepoint, savepoints_of
from pipelines.topology.describe import as_text
from pipelines.topology.sink import DeltaSink, FileSink, Sink
from pipelines.topology.source import ArraySource, Source
from pipelines.topology.topology import Topology
from resources.checkpoint import manifest as manifests
from resources.checkpoint.catalog import Catalog, Row, as_json
from resources.checkpoint.lease import Lease
from resources.checkpoint.log import PARTITIONS, CheckpointLog
from resources.checkpoint.manifest import Manifest, QueryFacts
from resources.checkpoint.preflight import refuse
from resources.checkpoint.savepoints import refuse_unfinished
from resources.checkpoint.storage import storage_named
from resources.errors import CheckpointError, ConfigurationError
from resources.sink.base import SinkWriter
from resources.sink.dead_letters import DeadLetters
from resources.source.policy import BadRecords

STRICTEST = (BadRecords.FAIL, BadRecords.DEAD_LETTER, BadRecords.QUARANTINE, BadRecords.SKIP)


class JobSession:
    """A context manager around one run. Nothing is written before every check has passed."""

    def __init__(self, topology: Topology, options: RunOptions) -> None:
        self.topology = topology
        self.options = options
        self.plans = plan_queries(topology)
        self.folder = options.home.job(topology.namespace, topology.job)
        self.queries: dict[str, QueryRun] = {}
        self.folders: Mapping[str, str] = {}
        self._stack = ExitStack()
        self._began = time.monotonic()
        self.manifest = Manifest.new()
        self.lease: Lease | None = None
        self.catalog = Catalog(options.home.catalog)
        self.recovered_from = ""
        self.previews: Mapping[str, pa.Table] = {}
        self.journal: Journal | None = None

    def __enter__(self) -> Self:
        """Take the lease, load the manifest, check that this topology may go on with what is there."""
        options = self.options
        lease = Lease.acquire(
            options.home.leases, pipeline=self.topology.name, run_id=options.run_id, ttl=options.lease_ttl
        )
        self.lease = self._stack.enter_context(lease)
        storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
        self.journal = Journal(self.catalog, storage)
        self._stack.callback(self.journal.close)
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what still runs and give the lease back."""
        try:
            self.options.driver.call(lambda _: self.stop_queries())
        finally:
            self._stack.close()

    def _open(self) -> None:
        known = self.catalog.last("pipelines", pipeline=self.topology.name)
        refuse_unfinished(self.folder)
        stored = manifests.load(self.folder) or self._without_manifest(known)
        if self.options.new_generation and stored.queries:
            stored = stored.next_generation()
        self.manifest, self.folders = resumed(self.topology, self.plans, stored, self.options)
        self._return_sources(stored)
        self._preflight()
        check_inputs(self.topology, self.manifest, self._logs())
        arrays = {s.name: digest(s) for s in self.topology.sources if isinstance(s, ArraySource)}
        self.manifest = replace(self.manifest, inputs={**self.manifest.inputs, **arrays})
        self._reconcile()
        self._register(known)
        self.save()

    def _without_manifest(self, known: Row | None) -> Manifest:
        """The manifest of a first start; a pipeline that ran before begins afresh only if that is wished for."""
        if known is None:
            return Manifest.new()
        if not self.options.new_generation:
            recovered = self._recover_lost(str(known["pipeline_id"]))
            if recovered is not None:
                return recovered
            raise CheckpointError(
                f"the checkpoint of {self.topology.name} is gone, generation {known['generation']} by the catalog",
                remedy="put it back or restore a savepoint (rs-assets restore); or begin afresh with --new-generation",
                file=self.folder,
            )
        return Manifest(pipeline_id=known["pipeline_id"], generation=known["generation"] + 1)

    def _recover_lost(self, pipeline_id: str) -> Manifest | None:
        """The manifest of the newest savepoint, brought back with the sinks; None if there is none of this pipeline."""
        options = self.options
        if options.savepoints.local_storage_only:
            return None
        found = savepoints_of(options).savepoints(self.topology.namespace, self.topology.job)
        chosen = next((each for each in found if each.pipeline_id == pipeline_id), None)
        if chosen is None:
            return None
        manifest = bring_back(self.topology, options, chosen, token=self.held.token)
        self.recovered_from = f"savepoint {chosen.id}, batches {dict(chosen.batches)}"
        self.note("recover", self.recovered_from, savepoint=chosen.id)
        return manifest

    def _reconcile(self) -> None:
        """Bring the catalog up to Spark's log: a driver that was killed left the last batches out."""
        assert self.journal is not None  # noqa: S101  made on entry
        for plan in self.plans:
            facts, last = self.facts(plan), self.log(plan).last_committed()
            if last > facts.catalogued:
                self._book(plan).reconcile(
                    catalogued=facts.catalogued, catalog=self.catalog, storage=self.journal.storage
                )
                self.manifest = self.manifest.with_query(self.folders[plan.name], replace(facts, catalogued=last))

    def _register(self, known: Row | None) -> None:
        """Note a new generation or another topology in the catalog."""
        row = {
            "pipeline": self.topology.name,
            "generation": self.manifest.last_generation,
            "run_id": self.options.run_id,
            "at": datetime.now(UTC),
            "pipeline_id": self.manifest.pipeline_id,
            "fingerprint": self.topology.fingerprint,
            "topology": as_text(self.topology),
            "state_shape": list(self.topology.state_shape()),
        }
        if known is not None and all(known[n] == row[n] for n in ("generation", "pipeline_id", "topology")):
            return
        reason = "first start" if known is None else "changed"
        if known is not None and known["generation"] != row["generation"]:
            reason = "new generation"
        self.catalog.append("pipelines", [{**row, "reason": reason}])

    def _return_sources(self, stored: Manifest) -> None:
        """Note the offsets of sources that were taken out, and hand them back to those that return."""
        for plan in self.plans:
            facts, log = self.facts(plan), self.log(plan)
            before = stored.queries.get(self.folders[plan.name], facts)
            last = log.offsets(log.last_committed()) if before.generation == facts.generation else None
            gone = (
                {name: last.sources[name] for name in set(before.sources) - set(plan.sources) if name in last.sources}
                if last
                else {}
            )
            for name in set(facts.left) & set(plan.sources):
                log.take_back(name, facts.left[name])
            left = {name: offset for name, offset in {**facts.left, **gone}.items() if name not in plan.sources}
            self.manifest = self.manifest.with_query(self.folders[plan.name], replace(facts, left=left))

    def _preflight(self) -> None:
        found = [
            finding
            for plan in self.plans
            for finding in findings(
                plan,
                self._query_folder(plan),
                self.manifest,
                self.facts(plan),
                {name: self._writer(name) for name in plan.sinks},
            )
        ]
        refuse(found, self.topology.name)

    def facts(self, plan: QueryPlan) -> QueryFacts:
        """What the manifest knows of the query."""
        return self.manifest.queries[self.folders[plan.name]]

    def _logs(self) -> dict[str, CheckpointLog]:
        """Spark's log of the query that owns each source."""
        return {name: self.log(plan) for plan in self.plans for name in plan.owns}

    def log(self, plan: QueryPlan) -> CheckpointLog:
        """Spark's log of one query."""
        return CheckpointLog(self._query_folder(plan) / "checkpoint", self.manifest.aliases)

    def _query_folder(self, plan: QueryPlan) -> Path:
        return self.folder / f"g{self.facts(plan).generation:04d}" / self.folders[plan.name]

    @property
    def held(self) -> Lease:
        """The lease, while the session is entered."""
        assert self.lease is not None  # noqa: S101  taken on entry
        return self.lease

    # Wiring: on the Spark driver's thread.

    def prepare(self, spark: SparkSession) -> None:
        """Make the queries, so that nodes can be wired."""
        if self.manifest.rescaling:
            from pipelines.runtime.rescale import finish_rescale

            finish_rescale(self, spark)
            self.note("rescale", f"finished what was cut short: {self.manifest.partitions} partitions")
        self._pin_partitions(spark)
        self.queries = {plan.name: self._query(spark, plan) for plan in self.plans}

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
        folder, facts = self._query_folder(plan), self.facts(plan)
        return QueryRun(
            topology=self.topology,
            plan=plan,
            wiring=self._wiring(spark, plan, folder),
            folder=folder,
            pipeline_id=self.manifest.pipeline_id,
            generation=facts.generation,
            aliases=self.manifest.aliases,
            partitions=self.manifest.partitions,
            lease=self.held,
            book=self._book(plan),
            writers={name: self._writer(name) for name in plan.sinks},
            letters=DeadLetters(self.options.home.dead_letters),
            on_progress=self.options.on_progress,
            rows_open=facts.rows_open,
        )

    def _book(self, plan: QueryPlan) -> Bookkeeper:
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

    def _writer(self, name: str) -> SinkWriter:
        node = self.topology[name]
        assert isinstance(node, Sink)  # noqa: S101  plans name sinks
        if isinstance(node, DeltaSink) and self.options.connector:
            node = replace(node, connector=self.options.connector)
        return writer_of(node, self.options.home, self.topology.namespace)

    def _wiring(self, spark: SparkSession, plan: QueryPlan, folder: Path) -> Wiring:
        policies = {self.topology[name].bad_records for name in plan.sources}  # type: ignore[attr-defined]
        policy = next(p for p in STRICTEST if p in policies)
        return Wiring(
            spark=spark,
            folder=folder,
            read=stream,
            gates=StreamGates(),
            pinned=self._pinned,
            stored_name=self.manifest.stored_name,
            policy=policy,
            quarantines=policy is BadRecords.QUARANTINE,
            max_line_bytes=self.options.max_line_bytes,
        )

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
        sealed = self.manifest.sealed or sealed
        self.manifest = replace(self.manifest, inputs=inputs, sealed=sealed)
        for query in self.queries.values():
            facts = self.facts(query.plan)
            seen = {name: max(batch, query.last_batch.get(name, -1)) for name, batch in facts.sinks.items()}
            folder = self.folders[query.plan.name]
            known = replace(
                facts,
                rows_open=query.report.rows_open,
                query_id=query.log.query_id,
                sinks=seen,
                catalogued=self.journal.written.get(folder, facts.catalogued),
            )
            self.manifest = self.manifest.with_query(folder, known)
        self.save()
        policy = self.options.savepoints
        if policy.at_end and not policy.local_storage_only and any(q.report.batches for q in self.queries.values()):
            savepoint(self.topology, self.options, note="end of the run")
            if policy.state_rows and any(plan.stateful for plan in self.plans):
                snapshot_state(self.topology, self.options)
        self.previews = self._previews()
        return self.report()

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
            queries=tuple(q.report for q in self.queries.values()),
            owning=frozenset(p.name for p in self.plans if p.owns),
            tables=self.tables(),
        )

    def tables(self) -> dict[str, str]:
        """Where each sink's rows lie."""
        return {
            s.name: self._writer(s.name).location() for s in self.topology.sinks if isinstance(s, DeltaSink | FileSink)
        }

    def note(self, kind: str, summary: str, **details: object) -> None:
        """Write what was done to the pipeline, besides running it, into the catalog."""
        row = {
            "pipeline": self.topology.name,
            "generation": self.manifest.generation,
            "run_id": self.options.run_id,
            "at": datetime.now(UTC),
            "kind": kind,
            "summary": summary,
            "details": as_json(details),
        }
        self.catalog.append("operations", [row])

    def save(self) -> None:
        """Make the manifest durable; LeaseLostError if it is another driver's by now."""
        self.held.check()
        manifests.save(self.folder, self.manifest)


def default_partitions(spark: SparkSession) -> int:
    """What the session was made with; a query that ran in it before may have set another number since."""
    made_with = spark.sparkContext.getConf().get(PARTITIONS, None)
    return int(made_with or spark.conf.get(PARTITIONS) or 1)
