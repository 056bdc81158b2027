"""The steps between taking the lease of a job and its first row: the manifest, the checks, the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from rs_assets.catalog.catalog import Row, row_of
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.shuffle import place_of
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.connectors.sink import BatchMark, Beginning, Checked, Columned, Fencing, SinkWriter
from rs_assets.errors import CheckpointError, SinkError, StartRefused
from rs_assets.operators.state.exchange import settle
from rs_assets.recovery import forget_marker as forgetting
from rs_assets.recovery import restore_marker as restoring
from rs_assets.recovery import rollback_marker as returning
from rs_assets.recovery.preflight import CHANGED, Finding, refuse, verify_query
from rs_assets.recovery.savepoints.relocate import relocate_moved
from rs_assets.runtime.identity import kept_steps, queries_of_now, resumed
from rs_assets.runtime.io_compatibility import moved_sources, refuse_renamed, refuse_ruled, refuse_taken_over
from rs_assets.runtime.job.dimensions import repeats
from rs_assets.runtime.job.ended import ended, withdraw_ends
from rs_assets.runtime.job.inputs import check_inputs
from rs_assets.runtime.job.lost import outdated, without_manifest
from rs_assets.runtime.job.outputs import return_outputs
from rs_assets.runtime.job.preflight import expected
from rs_assets.runtime.job.queries import book_of
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.places import placed
from rs_assets.runtime.upkeep.claims import Trust, claim_sinks
from rs_assets.runtime.upkeep.returns import roll_back_dead_letters, undo_dead_letters
from rs_assets.runtime.upkeep.uploads import begin_uploads, check_uploads, uploaded_token
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.describe import as_text
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology


def opened(
    topology: Topology, options: RunOptions, *, writers: Mapping[str, SinkWriter] = MappingProxyType({})
) -> JobSession:
    """A session that holds the lease and may continue from the stored state; its queries are not made yet.

    Refusals come before anything is written, and before Spark is started: StartRefused and UserError. `writers` replace
    those of some sinks, whose places are then neither read nor written.
    """
    session = JobSession(topology, options, writers)
    try:
        session.begin()
        _open(session)
        return session  # noqa: TRY300  a signal may come here as well
    except BaseException:
        session.close()
        raise


def _refuse_taken_over(session: JobSession, stored: Manifest) -> None:
    """Refuse queries that begin where others have written; they keep their outputs with the steps that are gone."""
    others = [*queries_of_now(session.topology, stored).values(), *stored.removed.values()]
    for plan in session.plans if stored.queries else ():
        folder = session.folders[plan.name]
        if folder not in stored.queries and folder not in stored.removed:
            refuse_taken_over(session.topology, plan, session.manifest.queries[folder], others)


def _open(session: JobSession) -> None:
    if not session.options.new_generation:
        forgetting.undo(session.folder)
        forgetting.refuse(session.folder, session.topology.name)
    session.warnings += check_uploads(session.topology, session.options)
    known = session.catalog.last("pipelines", pipeline=session.topology.name)
    stored = _stored(session)
    cut = returning.under_way(session.folder)
    if session.options.new_generation and stored.queries:
        refuse_renamed(session.topology, queries_of_now(session.topology, stored))
        stored = _next_generation(session, stored, above=cut.generation if cut else 0)
    elif stored.queries:
        returning.refuse(session.folder)
    elif cut:
        # Sinks may have recorded the generation of the rollback already.
        stored = replace(stored, generation=max(stored.generation, cut.generation + 1))
    session.manifest, session.folders = resumed(session.topology, session.plans, stored, session.options)
    _refuse_taken_over(session, stored)
    session.topology, session.manifest = placed(
        session.topology, session.manifest, session.options.home, partial(_writer_of, session)
    )
    first = not (stored.queries or stored.claims)
    session.held.outrank(uploaded_token(session.topology, session.options, stored.pipeline_id))
    claimed = claim_sinks(
        session.topology, session.manifest, session.held, session.options, first=first, replaced=session.replaced
    )
    session.manifest, session.claim = claimed.applied_to(session.manifest), claimed.claim
    for plan in session.plans:
        settle(session.query_folder(plan))
    for generation in sorted({session.query_folder(plan).parent for plan in session.plans}):
        relocate_moved(generation)
    _warn_of_moved(session, stored)
    _return_sources(session, stored)
    return_outputs(session, stored)
    _preflight(session)
    _check_rules(session, stored)
    _check_shuffles(session)
    _infer_again(session)
    logs = [(plan, session.log(plan)) for plan in session.plans]
    withdraw_ends(logs)
    repeated = {plan.name for plan, log in logs if repeats(session.topology, plan, log)}
    inputs = check_inputs(
        session.readers, session.manifest, logs, session.note_loss, ended=ended(logs), repeated=repeated
    )
    session.manifest = replace(session.manifest, inputs=inputs)
    _reconcile(session)
    _note_code(session)
    session.save()
    # Not earlier: a pipeline that is in the catalog without a manifest counts as one that has lost it.
    _register(session, known)
    _undo_dead_letters(session)
    returning.finish(session.folder)
    forgetting.finish(session.folder)
    _begin_uploads(session)


def _warn_of_moved(session: JobSession, stored: Manifest) -> None:
    """Say which sources go on at the position of another place: rows there before it are never read."""
    known = queries_of_now(session.topology, stored)
    for plan in session.plans:
        facts = known.get(session.folders[plan.name])
        if facts is not None and facts.generation == session.facts(plan).generation:
            session.warnings += tuple(moved_sources(session.topology, plan, facts))


def _begin_uploads(session: JobSession) -> None:
    """Let the batches of this run be uploaded, if the policy requires it."""
    topology, options = session.topology, session.options
    if options.savepoints.upload:
        session.uploader = begin_uploads(
            topology,
            options,
            manifest=lambda: session.manifest,
            token=session.held.token,
            failures=session.failures,
            at_end=session.at_end,
        )


def _stored(session: JobSession) -> Manifest:
    """The manifest to continue with; an interrupted recovery is repeated, as it was begun by a start.

    CheckpointError if a restore was interrupted while folders were exchanged.
    """
    cut = returning.under_way(session.folder)
    if cut is not None and cut.recovery and not session.options.new_generation:
        return without_manifest(session)
    if session.options.savepoints.upload and restoring.under_way(session.folder)[0] == restoring.RECOVERY:
        return without_manifest(session)
    restoring.refuse(session.folder)
    stored = manifests.load(session.folder)
    if stored is None:
        return without_manifest(session)
    return outdated(session, stored) or stored


def _writer_of(session: JobSession, step: str) -> tuple[str, bool]:
    """The stored name of the query of this sink, and whether it has planned a batch."""
    plan = next(plan for plan in session.plans if step in plan.sinks)
    return session.folders[plan.name], session.log(plan).begun


def _next_generation(session: JobSession, stored: Manifest, *, above: int) -> Manifest:
    """A new checkpoint of the same pipeline, in a generation that no sink has seen."""
    claimed = claim_sinks(session.topology, stored, session.held, session.options, trust=Trust.PERSON, above=above)
    return claimed.applied_to(replace(stored.next_generation(), generation=claimed.generation))


def _reconcile(session: JobSession) -> None:
    """Complete the catalog from Spark's log: a killed driver has not written its last batches."""
    assert session.journal is not None  # made on entry
    for plan in session.plans:
        facts, last = session.facts(plan), session.log(plan).last_committed()
        if last > facts.catalogued:
            book_of(session, plan).reconcile(
                catalogued=facts.catalogued, catalog=session.catalog, storage=session.journal.storage
            )
            session.manifest = session.manifest.with_query(session.folders[plan.name], replace(facts, catalogued=last))


def _note_code(session: JobSession) -> None:
    """Record in the manifest which version of the pipeline computes the batches from now on."""
    for plan in session.plans:
        facts = session.facts(plan).started_with(session.topology.code, session.log(plan).last_committed() + 1)
        session.manifest = session.manifest.with_query(session.folders[plan.name], facts)


def _register(session: JobSession, known: Row | None) -> None:
    """Record a new generation or another topology in the catalog."""
    row = row_of(
        session.topology.name,
        generation=session.manifest.last_generation,
        run_id=session.options.run_id,
        pipeline_id=session.manifest.pipeline_id,
        fingerprint=session.topology.fingerprint,
        topology=as_text(session.topology),
        state_shape=list(session.topology.state_shape()),
    )
    if known is not None and all(known[n] == row[n] for n in ("generation", "pipeline_id", "topology")):
        return
    reason = "first start" if known is None else "changed"
    if known is not None and known["generation"] != row["generation"]:
        reason = "new generation"
    session.catalog.append("pipelines", [{**row, "reason": reason}])


def _undo_dead_letters(session: JobSession) -> None:
    """Mark the dead letters of queries that start over: they read their records again.

    If all queries do, the pipeline does, and dead letters under unused query names no longer count either.
    """
    home, generation = session.options.home, session.manifest.generation
    anew = [plan for plan in session.plans if session.facts(plan).generation > 1 and not session.log(plan).begun]
    if len(anew) == len(session.plans) and all(session.facts(plan).generation == generation for plan in anew):
        undo_dead_letters(session.topology, home, session.folders.values(), _begun(session, generation))
        return
    for plan in anew:
        begun = _begun(session, session.facts(plan).generation)
        roll_back_dead_letters(session.topology, home, plan, session.folders[plan.name], path={}, begun=begun)


def _begun(session: JobSession, generation: int) -> BatchMark:
    """The marker of a generation that this run begins."""
    return BatchMark(session.manifest.pipeline_id, generation, "", -1, session.held.token)


def _return_sources(session: JobSession, stored: Manifest) -> None:
    """Store the offsets of removed sources, and return them to sources that are added again."""
    for plan in session.plans:
        facts, log = session.facts(plan), session.log(plan)
        before = stored.queries.get(session.folders[plan.name], facts)
        last = log.offsets(log.last_committed()) if before.generation == facts.generation else None
        gone = (
            {name: last.sources[name] for name in set(before.sources) - set(plan.sources) if name in last.sources}
            if last
            else {}
        )
        for name in set(facts.left) & set(plan.sources):
            log.take_back(name, facts.left[name])
        left = {name: offset for name, offset in {**facts.left, **gone}.items() if name not in plan.sources}
        session.manifest = session.manifest.with_query(session.folders[plan.name], replace(facts, left=left))


def _check_rules(session: JobSession, stored: Manifest) -> None:
    """TopologyChangedError for an output with rows by other rules; else record the end of the old rules and steps.

    The output's own record counts: a run that was killed after its first commit has not recorded that it has rows.
    """
    known = queries_of_now(session.topology, stored)
    for plan in session.plans:
        before, facts = known.get(session.folders[plan.name]), session.facts(plan)
        if before is None or before.generation != facts.generation:
            continue
        if not session.options.keep_state:
            refuse_ruled(session.topology, plan, replace(before, sinks=facts.sinks))
        else:
            last = session.log(plan).last_committed()
            facts = kept_steps(session.topology, stored, facts, before, last=last)
            session.manifest = session.manifest.with_query(session.folders[plan.name], facts)
        if before.rules != {name: rule for name, rule in facts.rules.items() if name in before.rules}:
            ruled = (*facts.ruled, (session.log(plan).last_committed(), before.rules))
            session.manifest = session.manifest.with_query(session.folders[plan.name], replace(facts, ruled=ruled))


def _check_shuffles(session: JobSession) -> None:
    """A query that has read the rows of another starts over with it, and does not continue without it.

    A reader that has begun before the writer has read nothing, as long as nothing was written.
    """
    writers = {name: plan for plan in session.plans for name in plan.sinks}
    for plan in session.plans:
        written = {name for source in plan.sources for name in session.topology[source].follows}
        for name in sorted(written if session.log(plan).begun else ()):
            if not session.log(writers[name]).begun and not _untouched(session, name):
                raise CheckpointError(
                    f"query {writers[name].name!r} starts over, but {plan.name!r} has read its earlier rows",
                    remedy="begin a new generation of the whole pipeline (--new-generation)",
                    pipeline=session.topology.name,
                )


def _infer_again(session: JobSession) -> None:
    """Forget schemas that a start has inferred which planned no batch: what they are of may be corrected since."""
    if not any(session.log(plan).begun for plan in session.plans):
        corrected = {node.name for node in session.topology if isinstance(node, FileSource | VersionedTable)}
        kept = {name: schema for name, schema in session.manifest.schemas.items() if name not in corrected}
        session.manifest = replace(session.manifest, schemas=kept)


def _untouched(session: JobSession, step: str) -> bool:
    """Whether nothing was ever written into the durable shuffle of a step."""
    write = session.topology[step]
    assert isinstance(write, ShuffleWrite)  # only these are followed
    return place_of(write, session.options.home).untouched()


def _preflight(session: JobSession) -> None:
    """Refuse an invalid checkpoint, warn about changes of sinks by others, and record the progress of sinks."""
    found: list[Finding] = []
    for plan in session.plans:
        writers = {name: session.writer(name) for name in plan.sinks}
        for writer in writers.values():
            if isinstance(writer, Checked):
                writer.check_start()
        facts = session.facts(plan)
        _begin_again(session, plan, writers)
        wanted = expected(
            plan, session.manifest, session.folders[plan.name], writers, session.options.home.dead_letters
        )
        found += verify_query(session.query_folder(plan) / "checkpoint", wanted)
        session.remembering |= wanted.sinks.keys()
        # A sink without stored batches has none that could be lost.
        had = {
            name: max(batch, wanted.sinks[name]) if name in wanted.sinks else -1 for name, batch in facts.sinks.items()
        }
        session.manifest = session.manifest.with_query(session.folders[plan.name], replace(facts, sinks=had))
    refuse(found, session.topology.name)
    session.warnings += tuple(finding.meaning for finding in found if finding.code == CHANGED)


def _begin_again(session: JobSession, plan: QueryPlan, writers: Mapping[str, SinkWriter]) -> None:
    """StartRefused if a query that begins a later generation would write next to the rows of earlier ones.

    A restore of a savepoint that does not have the query leads here without a request. Then only sinks are asked that
    know whether they have such rows.
    """
    generation = session.facts(plan).generation
    if generation == 1 or session.log(plan).begun:
        return
    requested = session.options.new_generation or session.options.reset_steps
    known = check_fields(session.topology)
    for name, writer in writers.items():
        stored = session.manifest.stored_name(name)
        mark = BatchMark(session.manifest.pipeline_id, generation, stored, -1, session.held.token, session.claim)
        try:
            if isinstance(writer, Columned) and known[name].whole and name not in plan.late:
                writer.check_fields(known[name].types)
            knows = requested or isinstance(writer, Fencing)
            warning = writer.check_begin(mark) if knows and isinstance(writer, Beginning) else ""
        except SinkError as error:
            raise StartRefused(error.what, remedy=error.remedy, **error.facts) from error
        session.warnings += (warning,) if warning else ()
