"""Makes the queries of a session from its plans, its manifest and its options."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rs_assets.checkpoint.held import Hold
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import stream
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.source import Watch
from rs_assets.records.policy import BadRecords
from rs_assets.runtime.batch.per_batch import before_rejecting
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.batch.record_filter import StreamRecordFilter
from rs_assets.runtime.batch.sink_progress import SinkProgress
from rs_assets.runtime.batch.split_watermarks import by_split_of, split_watermarks_of
from rs_assets.runtime.batch.table_loading import TableLoading
from rs_assets.runtime.batch.work import BatchWork
from rs_assets.runtime.job.dimensions import versions_begun
from rs_assets.runtime.job.inputs import watches_of
from rs_assets.runtime.record.bookkeeping import Bookkeeper
from rs_assets.runtime.report import QueryReport
from rs_assets.topology.located import located
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.shuffle import Shuffle
from rs_assets.topology.nodes.step import ForEach, Union
from rs_assets.topology.nodes.table import StreamTableJoin, ToTable
from rs_assets.topology.nodes.table_reduce import TableReduce

if TYPE_CHECKING:
    from rs_assets.runtime.job.session import JobSession

# Steps after which rows of a key come in another order than that of their records.
SCATTERING = (Distinct, Shuffle, StreamTableJoin, Union)


def query_of(session: JobSession, spark: SparkSession, plan: QueryPlan) -> QueryRun:
    """The query of `plan`, ready to be wired."""
    folder, facts = session.query_folder(plan), session.facts(plan)
    dimensions = session.dimensions.of_query(folder, plan.nodes)
    exchange = session.exchange(plan)
    control_root = folder if exchange is None else exchange.place
    context = replace(context_of(session, spark, plan, folder), noted=dimensions.notes.of, control_root=control_root)
    work = BatchWork(
        topology=session.topology,
        plan=before_rejecting(session.topology, plan, quarantines=context.quarantines),
        context=context,
        folder=folder,
        pipeline_id=session.manifest.pipeline_id,
        generation=facts.generation,
        aliases=session.manifest.aliases,
        lease=session.held,
        claim=session.claim,
        book=book_of(session, plan),
        writers={name: session.writer(name) for name in plan.sinks},
        letters=DeadLetters(session.options.home.dead_letters),
        watches=_watches(session, plan),
        dimensions=dimensions,
        marks=split_watermarks_of(session.topology, plan, session.log(plan), folder, session.options.home),
        uploads=session.uploader.of(session.folders[plan.name]) if session.uploader is not None else None,
        exchange=exchange,
        notes=SinkProgress({n: facts.sinks[n] for n in plan.sinks if n in session.remembering}, _noting(session, plan)),
    )
    return QueryRun(
        work=work,
        partitions=session.manifest.partitions,
        on_progress=session.options.on_progress,
        report=QueryReport(query=plan.name, rows_open=facts.rows_open),
        tables=TableLoading(log=work.log, hold=Hold(folder, plan.held)),
    )


def book_of(session: JobSession, plan: QueryPlan) -> Bookkeeper:
    """The bookkeeper of one query."""
    assert session.journal is not None  # made on entry
    return Bookkeeper(
        topology=session.topology,
        plan=plan,
        log=session.log(plan),
        folder=session.folders[plan.name],
        generation=session.facts(plan).generation,
        run_id=session.options.run_id,
        journal=session.journal,
        home=session.options.home,
        versions=versions_begun(session.topology, session.options.home, session.query_folder(plan)),
    )


def poisons_of(session: JobSession, plan: QueryPlan) -> Mapping[str, Mapping[str, str]]:
    """The value for `CompileContext.poisons` of a query: those kept out of a batch that is not committed yet.

    Its dead letters may have been written with all of them. Otherwise they are not needed: the plan stays small, and a
    poison that comes again is found again.
    """
    log = session.log(plan)
    batch_id = log.last_committed() + 1
    return poisons_in(session.facts(plan), batch_id, code=session.topology.code) if log.offsets(batch_id) else {}


def poisons_in(facts: QueryFacts, batch_id: int, *, code: str) -> Mapping[str, Mapping[str, str]]:
    """The poisons that are kept out of a batch: the reasons by digest, by the stored name of the source.

    Besides its own, those that this `code` has failed on before: other code may compute them.
    """
    made: dict[str, dict[str, str]] = defaultdict(dict)
    for poison in facts.poisons:
        at = poison["batch"]
        if at == batch_id or (at < batch_id and poison.get("code", code) == code):
            made[poison["source"]][poison["digest"]] = poison["reason"]
    return made


def _noting(session: JobSession, plan: QueryPlan) -> Callable[[Mapping[str, int]], None]:
    """Records the progress of the sinks of a query; called by batches."""
    folder = session.folders[plan.name]

    def save(had: Mapping[str, int]) -> None:
        def noted(manifest: Manifest) -> Manifest:
            facts = manifest.queries[folder]
            return manifest.with_query(folder, replace(facts, sinks={**facts.sinks, **had}))

        session.change(noted)

    return save


def _watches(session: JobSession, plan: QueryPlan) -> dict[str, Watch]:
    """The watches of the sources of a query."""
    made = watches_of(
        {name: session.reader(name) for name in plan.sources},
        session.log(plan),
        known=lambda source: session.manifest.inputs.get(source, {}),
        keep=session.keep_input,
        note=session.note_loss,
        inferred=partial(_inferred, session),
        max_line_bytes=session.options.max_line_bytes,
    )
    for watch in made.values():
        session.at_end(watch.close)
    return made


def _inferred(session: JobSession, source: str) -> str | None:
    """The inferred schema of a source, as JSON; the manifest has it once the query is wired."""
    return session.manifest.schema_of(source)


def context_of(session: JobSession, spark: SparkSession, plan: QueryPlan, folder: Path) -> CompileContext:
    """The context for compiling the query of `plan` in `folder`, without the notes of its dimensions."""
    by_split = by_split_of(session.topology, plan)
    by_place = any(
        isinstance(node, ToTable | TableReduce | Process | StreamTableJoin)
        for node in map(session.topology.__getitem__, plan.states)
    )
    nodes = [session.topology[name] for name in plan.nodes]
    ordered = any(isinstance(node, Sink) and node.read_order for node in nodes)
    policy = BadRecords.strictest({source.bad_records for source in plan.judging(session.topology)})
    return CompileContext(
        spark=spark,
        folder=folder,
        control_root=folder,
        read=stream,
        record_filter=StreamRecordFilter(plan.shared(session.topology)),
        pinned=partial(_pinned, session),
        stored_name=session.manifest.stored_name,
        policy=policy,
        quarantines=policy is BadRecords.QUARANTINE,
        late=plan.late_steps(session.topology),
        called=_called(session, plan) if policy is not BadRecords.QUARANTINE else frozenset(),
        by_split=by_split is not None or by_place,
        by_record=by_place or (by_split is not None and by_split.by_record),
        ordered=ordered,
        scattered=ordered and any(isinstance(node, SCATTERING) for node in nodes),
        poisons=poisons_of(session, plan),
        max_line_bytes=session.options.max_line_bytes,
        home=session.options.home,
        behind=partial(_behind, session),
        links=session.topology.links,
        controls=plan.controls,
        dimension=lambda node: session.dimensions.by_step[node.name].held,
        trace=session.options.trace,
        located=located(session.topology),
    )


def _called(session: JobSession, plan: QueryPlan) -> frozenset[str]:
    """The steps that an earlier query calls for their side effect, with the same records."""
    return frozenset(name for name in plan.shared_nodes if isinstance(session.topology[name], ForEach))


def _behind(session: JobSession, step: str) -> StructType:
    """The schema of the input of a durable shuffle; the query that writes it was wired before."""
    return next(query.flows[step] for query in session.queries.values() if step in query.flows).df.schema


def _pinned(session: JobSession, source: Source, infer: Callable[[], StructType]) -> StructType:
    """The schema that was inferred once for `source`; a restart must use the same one."""
    stored = session.manifest.schema_of(source.name)
    if stored is not None:
        return StructType.fromJson(json.loads(stored))
    schema = infer()
    session.manifest = replace(session.manifest, schemas={**session.manifest.schemas, source.name: schema.json()})
    session.save()
    return schema
