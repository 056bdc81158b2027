"""Checks a pipeline's checkpoints before their use, with the state of its manifest and its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.delta.table import last_batch, open_table
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, Beginning, SinkWriter, Watched
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.recovery import forget_marker as forgetting
from rs_assets.recovery import rollback_marker as returning
from rs_assets.recovery.preflight import ACCEPT, Expected, Finding, verify_query
from rs_assets.recovery.repair import REPAIRS
from rs_assets.runtime.identity import resumed
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.topology import Topology


def expected(
    plan: QueryPlan, manifest: Manifest, folder: str, writers: Mapping[str, SinkWriter], letters: str
) -> Expected:
    """The expected checkpoint of `plan`, with the stored name `folder`; `letters` is the table of dead letters."""
    facts = manifest.queries[folder]
    marks = _marks(manifest, facts, writers)
    remembered = {name: writer.last_committed(marks[name]) for name, writer in writers.items()}
    return Expected(
        query=plan.name,
        sources=tuple(manifest.stored_name(s) for s in plan.sources),
        controls=tuple(plan.controls.values()),
        stateful=plan.stateful is not None,
        operators=len(plan.states),
        # An interrupted rescale is completed after this check; until then each query has its own number.
        partitions=0 if manifest.rescaling else manifest.partitions,
        query_id=facts.query_id,
        sinks={name: batch for name, batch in remembered.items() if batch is not None},
        generation=facts.generation,
        sinks_seen={name: facts.sinks.get(name, -1) for name, batch in remembered.items() if batch is not None},
        sinks_changed={
            name: tuple(writer.changes_by_others(marks[name]))
            for name, writer in writers.items()
            if isinstance(writer, Watched)
        },
        sinks_staying=frozenset(name for name, writer in writers.items() if isinstance(writer, Beginning)),
        letters=partial(_last_letters, letters, _mark(manifest, facts, f"{folder}.dead_letters")),
    )


def _last_letters(path: str, mark: BatchMark) -> int:
    table = open_table(path)
    return -1 if table is None else last_batch(table, mark)


def _mark(manifest: Manifest, facts: QueryFacts, sink: str) -> BatchMark:
    """The marker of the query in a sink with this stored name."""
    return BatchMark(manifest.pipeline_id, facts.generation, sink, batch_id=0)


def _marks(manifest: Manifest, facts: QueryFacts, sinks: Iterable[str]) -> dict[str, BatchMark]:
    """The markers of the query in its sinks."""
    return {name: _mark(manifest, facts, manifest.stored_name(name)) for name in sinks}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The checked checkpoint of one query, and the findings."""

    query: str
    checkpoint: Path
    expected: Expected
    marks: Mapping[str, BatchMark]
    found: tuple[Finding, ...]


def verify(topology: Topology, options: RunOptions | None = None) -> tuple[Verified, ...]:
    """Check the checkpoints of a pipeline that is not running, as every start does; nothing is changed.

    () before the first start. TopologyChangedError if the state was made by another version of the pipeline,
    CheckpointError if a rollback, or the removal of keys, was interrupted.
    """
    options = RunOptions.of(options)
    job = options.home.job(topology.namespace, topology.job)
    stored = manifests.load(job)
    if stored is None:
        return ()
    forgetting.refuse(job, topology.name)
    returning.refuse(job)
    plans = plan_queries(topology)
    manifest, folders = resumed(topology, plans, stored, options)
    return tuple(_verified(topology, plan, job, manifest, folders[plan.name], options) for plan in plans)


def repair(topology: Topology, name: str, options: RunOptions | None = None) -> tuple[str, ...]:
    """Apply the repair `name` to each query with a finding that it fixes; returns a description of each repair.

    The pipeline must not run. ConfigurationError for an unknown repair, CheckpointError if no finding requires it.
    """
    known = (*REPAIRS, ACCEPT)
    if name not in known:
        raise ConfigurationError(f"there is no repair {name!r}", remedy=f"use one of: {', '.join(known)}")
    asking = [query for query in verify(topology, options) if any(f.repair == name for f in query.found)]
    if not asking:
        raise CheckpointError(f"no finding in the checkpoints of {topology.name} requires the repair {name}")
    if name == ACCEPT:
        return tuple(line for query in asking for line in _accepted(topology, query, RunOptions.of(options)))
    return tuple(f"{query.query}: {REPAIRS[name](query.checkpoint, query.expected)}" for query in asking)


def _accepted(topology: Topology, query: Verified, options: RunOptions) -> Iterator[str]:
    """Accept the sinks of a query as others have changed them; describes each."""
    for name, mark in query.marks.items():
        changes = query.expected.sinks_changed.get(name, ())
        node = topology[name]
        if any(change.acceptable for change in changes) and isinstance(node, Sink):
            writer = writer_of(node, options.home, topology.namespace)
            assert isinstance(writer, Watched)  # it reported the changes
            writer.accept_changes(mark)
            yield f"{query.query}: the sink {name!r} is accepted as it is"


def _verified(
    topology: Topology, plan: QueryPlan, job: Path, manifest: Manifest, folder: str, options: RunOptions
) -> Verified:
    facts = manifest.queries[folder]
    sinks = [node for node in topology.sinks if node.name in plan.sinks]
    writers = {node.name: writer_of(node, options.home, topology.namespace) for node in sinks}
    wanted = expected(plan, manifest, folder, writers, options.home.dead_letters)
    checkpoint = manifest.place(job, folder) / "checkpoint"
    return Verified(
        query=plan.name,
        checkpoint=checkpoint,
        expected=wanted,
        marks=_marks(manifest, facts, writers),
        found=verify_query(checkpoint, wanted),
    )
