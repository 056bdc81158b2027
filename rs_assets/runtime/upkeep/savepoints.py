"""Savepoints of a pipeline, and rollbacks: restore, rewind, fork, recovery of a lost disk.

Every rollback begins a new generation: its sinks get the rows of the target, each in one transaction, and no late write
of the old generation can reach it. All sinks are checked first, and then rolled back first. A marker in the job's
folder records that this is in progress: if it is interrupted, the next start is refused, and another rollback completes
it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rs_assets.catalog.catalog import Catalog, operation, row_of
from rs_assets.catalog.lease import Lease, held_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, generation_folder
from rs_assets.common.uri import shown_uri
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.operators.state.exchange import fetch_left, queries_left, settle
from rs_assets.recovery import forget_marker as forgetting
from rs_assets.recovery import rollback_marker as returning
from rs_assets.recovery.rollback_marker import Returning
from rs_assets.recovery.savepoints import Savepoint, SavepointStore, Subject, retention, take
from rs_assets.recovery.savepoints import fork as fork_savepoint
from rs_assets.recovery.savepoints import restore as restore_savepoint
from rs_assets.recovery.savepoints.copy import OnProgress
from rs_assets.recovery.savepoints.relocate import relocate
from rs_assets.runtime.io_compatibility import current_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.claims import Trust, claim_sinks
from rs_assets.runtime.upkeep.ownership import (
    known_of,
    newest_savepoint,
    readable,
    savepoint_to_restore,
    savepoints_of,
)
from rs_assets.runtime.upkeep.returns import QueryReturn, Return, begun_with, matching
from rs_assets.runtime.upkeep.rewound import partitions_at, refuse_batch, rewind_queries
from rs_assets.runtime.upkeep.shuffles import begin_tables, links_of, refuse_topics, with_readers
from rs_assets.runtime.upkeep.uploads import upload_return, uploaded_token
from rs_assets.topology.topology import Topology

# How often a copy is made again because the running stream was rescaled meanwhile.
ROUNDS = 3


def savepoint(
    topology: Topology, options: RunOptions | None = None, *, note: str = "", on_progress: OnProgress | None = None
) -> Savepoint:
    """Copy the pipeline's checkpoints, running or stopped, and record that in the catalog; the policy removes old ones.

    CheckpointError if there is nothing to copy yet.
    """
    refuse_topics(topology)
    options = RunOptions.of(options)
    folder = options.home.job(topology.namespace, topology.job)
    _stored(topology, folder)
    forgetting.refuse(folder, topology.name)
    subject = Subject(
        namespace=topology.namespace,
        job=topology.job,
        fingerprint=topology.fingerprint,
        note=note,
        run_id=options.run_id,
    )
    store = savepoints_of(options)
    for query in queries_left(folder):
        fetch_left(query)
    taken = _taken(topology, folder, store, subject, on_progress)
    row = row_of(
        topology.name,
        generation=taken.generation,
        run_id=options.run_id,
        snapshot_id=taken.id,
        kind="savepoint",
        batch_id=max(taken.batches.values()),
        bytes=taken.bytes_total,
        uri=shown_uri(options.savepoints.uri or options.home.savepoints),
        digest=taken.digest,
    )
    Catalog(options.home.catalog).append("snapshots", [row])
    policy = options.savepoints
    retention(store, topology.namespace, topology.job, keep=policy.keep, max_age=policy.max_age, taken=taken)
    return taken


class _Overtaken(CheckpointError):
    """The manifest that was read before the copy has another number of state partitions by now."""


def _taken(
    topology: Topology, folder: Path, store: SavepointStore, subject: Subject, on_progress: OnProgress | None
) -> Savepoint:
    """A savepoint in the store; the copy is repeated if a rescale of the running stream has overtaken it."""
    for _ in range(ROUNDS):
        manifest = _stored(topology, folder)

        def check(before: Manifest = manifest) -> None:
            now = _stored(topology, folder)
            if (now.partitions, now.rescaling) != (before.partitions, before.rescaling):
                raise _Overtaken("the state was rescaled")

        with suppress(_Overtaken):
            return take(
                folder,
                manifest,
                store=store,
                subject=subject,
                on_progress=on_progress,
                links=links_of(topology, manifest, folder.absolute()),
                before_saving=check,
            )
    raise CheckpointError(
        f"the state of {topology.name} was rescaled while the savepoint was taken", remedy="take it again", file=folder
    )


def _stored(topology: Topology, folder: Path) -> Manifest:
    manifest = manifests.load(folder)
    if manifest is None:
        raise CheckpointError(f"{topology.name} has no checkpoint yet", remedy="run it first", file=folder)
    return manifest


def restore(topology: Topology, options: RunOptions | None = None, *, savepoint_id: str | None = None) -> Savepoint:
    """Restore the stopped pipeline to a savepoint (None: its newest); its sinks are rolled back with it.

    It also moves the pipeline into a home without records of it: writers in other homes are fenced off. The result is a
    new generation. CheckpointError or SinkError, with the checkpoint unchanged, if something is damaged or rows of
    others are in the way.
    """
    options = RunOptions.of(options)
    chosen = check_restore(topology, options, savepoint_id=savepoint_id)
    with held(topology, options) as lease:
        bring_back(topology, options, chosen, lease=lease, trust=Trust.PERSON)
        summary = f"generation {chosen.generation}, batches {dict(chosen.batches)}"
        _note(topology, options, chosen.generation, "restore", summary, savepoint=chosen.id)
    return chosen


def check_restore(topology: Topology, options: RunOptions, *, savepoint_id: str | None = None) -> Savepoint:
    """The savepoint that `restore` would use; CheckpointError if there is none. The pipeline may run."""
    refuse_topics(topology)
    return savepoint_to_restore(topology, options, savepoint_id)


def bring_back(topology: Topology, options: RunOptions, chosen: Savepoint, *, lease: Lease, trust: Trust) -> Manifest:
    """Restore sinks and checkpoints to a savepoint, as a new generation.

    Everything is checked first: that the savepoint is complete, and that every sink can be rolled back.
    """
    folder = options.home.job(topology.namespace, topology.job)
    saved, folders = matching(topology, Manifest.from_body(chosen.manifest))
    current = readable(options, topology.namespace, topology.job)
    mine = replace(saved, claims=current.claims, token=current.token) if current else replace(saved, claims={})
    above = _last_generation(topology, options)
    lease.outrank(uploaded_token(topology, options, saved.pipeline_id))
    claimed = claim_sinks(topology, mine, lease, options, trust=trust, above=above)
    queries = tuple(
        QueryReturn(
            plan=plan,
            folder=folders[plan.name],
            facts=saved.queries[folders[plan.name]],
            batch=chosen.batches.get(folders[plan.name], -1),
        )
        for plan in plan_queries(topology)
        if folders[plan.name] in saved.queries
    )
    made = Return(topology=topology, options=options, manifest=saved, queries=queries, claimed=claimed)
    with made.checked() as sinks:

        def go() -> None:
            lease.check()
            what, recovery = f"a restore of savepoint {chosen.id}", trust is Trust.LEASES
            returning.begin(folder, Returning(claimed.generation, what, recovery))
            made.act(sinks)

        restored = restore_savepoint(savepoints_of(options), chosen, folder, ready=go)
    mine = claimed.applied_to(replace(_with_absent(restored, current, queries), claims=mine.claims))
    manifest = _renumbered(folder, mine, claimed.generation, chosen.batches)
    begin_tables(topology, manifest, folder, {query.folder: query for query in queries}, claimed)
    upload_return(topology, options, manifest, claimed.token)
    returning.finish(folder)
    return manifest


def _with_absent(restored: Manifest, current: Manifest | None, queries: tuple[QueryReturn, ...]) -> Manifest:
    """The restored manifest, with the sinks that were written since and have not gone back with the others."""
    for query in queries:
        facts, since = restored.queries[query.folder], current.queries.get(query.folder) if current else None
        if since is not None:
            absent = {**facts.absent, **since.without(query.plan.sinks)}
            restored = restored.with_query(query.folder, replace(facts, absent=absent))
    return restored


def rewind(topology: Topology, to_batch: int, options: RunOptions | None = None, *, step: str | None = None) -> str:
    """Rewind one query of the stopped pipeline, and its sinks, to the end of batch `to_batch`.

    Queries that have read its later rows, through a durable shuffle, are rewound with it. `step` names the query by its
    stateful step; needed only if there are several. Returns a description. CheckpointError names the possible batches;
    SinkError, without any change, if a sink cannot be rolled back.
    """
    options = RunOptions.of(options)
    folder = options.home.job(topology.namespace, topology.job)
    with held(topology, options) as lease:
        stored, manifest, plan, name = check_rewind(topology, to_batch, options, step=step)
        first = QueryReturn(plan=plan, folder=name, facts=manifest.queries[name], batch=to_batch)
        queries = with_readers(topology, manifest, folder, first)
        partitions = partitions_at(queries, manifest, folder)
        above = _last_generation(topology, options)
        lease.outrank(uploaded_token(topology, options, manifest.pipeline_id))
        claimed = claim_sinks(topology, manifest, lease, options, trust=Trust.PERSON, above=above)
        made = Return(topology=topology, options=options, manifest=manifest, queries=queries, claimed=claimed)
        begun = claimed.generation
        where = ", ".join(f"{query.plan.name} to batch {query.batch}" for query in queries)
        summary = f"{where}, from then on generation {begun}"
        with made.checked() as sinks:
            lease.check()
            _clear_cut(folder, manifest)
            returning.begin(folder, Returning(begun, f"a rewind of {summary}"))
            done = made.act(sinks)
        sinks_of = [manifest.stored_name(sink) for query in queries for sink in query.plan.sinks]
        mine = replace(claimed.applied_to(stored, sinks_of), partitions=partitions)
        rewound = rewind_queries(folder, mine, queries, begun)
        begin_tables(topology, rewound, folder, {query.folder: query for query in queries}, claimed)
        upload_return(topology, options, rewound, claimed.token)
        returning.finish(folder)
        _note(topology, options, begun, "rewind", summary, sinks=done)
    return "; ".join((summary, *(f"{sink} {what}" for sink, what in done.items())))


class Rewindable(NamedTuple):
    """A query that can be rewound: the manifest as stored and by current names, and its folder."""

    stored: Manifest
    manifest: Manifest
    plan: QueryPlan
    folder: str


def check_rewind(topology: Topology, to_batch: int, options: RunOptions, *, step: str | None = None) -> Rewindable:
    """The query that `rewind` would rewind; CheckpointError if it cannot go to that batch. The pipeline may run."""
    refuse_topics(topology)
    folder = options.home.job(topology.namespace, topology.job)
    stored = manifests.load(folder)
    if stored is None:
        raise CheckpointError(f"{topology.name} has no checkpoint yet", remedy="run it first", file=folder)
    manifest, folders = matching(topology, stored)
    plan = _named(topology, step)
    name = folders[plan.name]
    if name not in manifest.queries:
        raise CheckpointError(f"{plan.name} has no checkpoint yet", remedy="run it first", file=folder)
    refuse_batch(plan, manifest.place(folder, name), to_batch)
    return Rewindable(stored, manifest, plan, name)


def _clear_cut(folder: Path, manifest: Manifest) -> None:
    """Remove the checkpoint of an interrupted rewind; an interrupted restore must be repeated itself."""
    cut = returning.under_way(folder)
    if cut is None:
        return
    if not all(manifest.place(folder, name).is_dir() for name in manifest.queries):
        returning.refuse(folder)
    if cut.generation > manifest.last_generation:
        shutil.rmtree(folder / generation_folder(cut.generation), ignore_errors=True)


def _last_generation(topology: Topology, options: RunOptions) -> int:
    """The greatest generation of the checkpoint, the catalog and an interrupted rollback."""
    current = readable(options, topology.namespace, topology.job)
    cut = returning.under_way(options.home.job(topology.namespace, topology.job))
    known = known_of(options, topology.namespace, topology.job)
    return max(
        current.last_generation if current else 0, cut.generation if cut else 0, known.generation if known else 0
    )


def fork(
    topology: Topology, source: tuple[str, str], options: RunOptions | None = None, *, savepoint_id: str | None = None
) -> Savepoint:
    """Begin `topology`, which has not run yet, with the state and the offsets of a savepoint of another pipeline.

    `source` is the namespace and the job of the savepoint. The steps must have the same names as there.
    ConfigurationError for an output with the current rows of a table: it would lack those that came before.
    """
    refuse_topics(topology)
    _refuse_current(topology)
    options = RunOptions.of(options)
    store = savepoints_of(options)
    chosen = store.load(*source, savepoint_id) if savepoint_id else newest_savepoint(options, *source)
    folder = options.home.job(topology.namespace, topology.job)
    with held(topology, options) as lease:
        if manifests.load(folder) is None:
            # Its outputs may be those of a lost home: then the pipeline has run already, too.
            claim_sinks(topology, Manifest.new(), lease, options, first=True)
        fork_savepoint(store, chosen, folder)
        _note(topology, options, 1, "fork", f"from {'.'.join(source)}", savepoint=chosen.id)
    return chosen


def _refuse_current(topology: Topology) -> None:
    for sink in topology.sinks:
        step = current_of(topology, sink.name)
        if step is not None:
            raise ConfigurationError(
                f"the output {sink.name!r} has the current rows of {step!r}, and a fork would have those"
                " alone that change from its savepoint on",
                remedy="run it without a fork: it reads all input; or write the changes (.to_stream())",
                pipeline=topology.name,
            )


@contextmanager
def held(topology: Topology, options: RunOptions, *, forgets: bool = False) -> Iterator[Lease]:
    """The lease, over a home that is complete: a run that was killed may have left state in an object store.

    CheckpointError if keys were being forgotten, unless that is what is done (`forgets`).
    """
    leases, name = options.home.leases, topology.name
    with held_lease(leases, pipeline=name, run_id=options.run_id, ttl=options.lease_ttl) as lease:
        if not forgets:
            forgetting.undo(options.home.job(topology.namespace, topology.job))
            forgetting.refuse(options.home.job(topology.namespace, topology.job), name)
        for query in queries_left(options.home.job(topology.namespace, topology.job)):
            settle(query)
        yield lease


def _named(topology: Topology, step: str | None) -> QueryPlan:
    plans = plan_queries(topology)
    found = [plan for plan in plans if step in (None, plan.stateful, plan.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(plan.stateful or plan.name for plan in plans)
    raise ConfigurationError(
        "several queries can be rewound" if step is None else f"there is no query of a step {step!r}",
        remedy=f"name one of: {names} (step=, in a shell --step)",
        pipeline=topology.name,
    )


def _renumbered(folder: Path, manifest: Manifest, begun: int, batches: Mapping[str, int]) -> Manifest:
    """Move all queries of a restored manifest into the folder of a new generation."""
    target = folder / generation_folder(begun)
    target.mkdir(mode=0o750)
    for name, facts in manifest.queries.items():
        place = folder / generation_folder(facts.generation)
        if (place / name).exists():
            (place / name).rename(target / name)
            relocate(target, {str(place): str(target)})
    queries = {n: begun_with(facts, batches.get(n, -1), begun) for n, facts in manifest.queries.items()}
    renumbered = replace(manifest, generation=begun, queries=queries)
    manifests.save(folder, renumbered)
    return renumbered


def _note(topology: Topology, options: RunOptions, generation: int, kind: str, summary: str, **details: object) -> None:
    row = operation(topology.name, generation=generation, run_id=options.run_id, kind=kind, summary=summary, **details)
    Catalog(options.home.catalog).append("operations", [row])
