"""What happens between taking the lease of a job and its first row: the manifest, the checks, the catalog."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.runtime.identity import resumed
from pipelines.runtime.inputs import check_inputs, digest
from pipelines.runtime.preflight import findings
from pipelines.runtime.travel import bring_back, savepoints_of
from pipelines.topology.describe import as_text
from pipelines.topology.source import ArraySource
from resources.checkpoint import manifest as manifests
from resources.checkpoint.catalog import Row
from resources.checkpoint.manifest import Manifest
from resources.checkpoint.preflight import refuse
from resources.checkpoint.savepoints import refuse_unfinished
from resources.errors import CheckpointError

if TYPE_CHECKING:
    from pipelines.runtime.session import JobSession


def open_job(session: JobSession) -> None:
    """Everything between taking the lease and the first row; what is refused is refused before anything is written."""
    known = session.catalog.last("pipelines", pipeline=session.topology.name)
    refuse_unfinished(session.folder)
    stored = manifests.load(session.folder) or _without_manifest(session, known)
    if session.options.new_generation and stored.queries:
        stored = stored.next_generation()
    session.manifest, session.folders = resumed(session.topology, session.plans, stored, session.options)
    _return_sources(session, stored)
    _preflight(session)
    check_inputs(
        session.topology, session.manifest, {name: session.log(plan) for plan in session.plans for name in plan.owns}
    )
    arrays = {s.name: digest(s) for s in session.topology.sources if isinstance(s, ArraySource)}
    session.manifest = replace(session.manifest, inputs={**session.manifest.inputs, **arrays})
    _reconcile(session)
    _register(session, known)
    session.save()


def _without_manifest(session: JobSession, known: Row | None) -> Manifest:
    """The manifest of a first start; a pipeline that ran before begins afresh only if that is wished for."""
    if known is None:
        return Manifest.new()
    if not session.options.new_generation:
        recovered = _recover_lost(session, str(known["pipeline_id"]))
        if recovered is not None:
            return recovered
        raise CheckpointError(
            f"the checkpoint of {session.topology.name} is gone, generation {known['generation']} by the catalog",
            remedy="put it back or restore a savepoint (rs-assets restore); or begin afresh with --new-generation",
            file=session.folder,
        )
    return Manifest(pipeline_id=known["pipeline_id"], generation=known["generation"] + 1)


def _recover_lost(session: JobSession, pipeline_id: str) -> Manifest | None:
    """The manifest of the newest savepoint, brought back with the sinks; None if there is none of this pipeline."""
    options = session.options
    if options.savepoints.local_storage_only:
        return None
    found = savepoints_of(options).savepoints(session.topology.namespace, session.topology.job)
    chosen = next((each for each in found if each.pipeline_id == pipeline_id), None)
    if chosen is None:
        return None
    manifest = bring_back(session.topology, options, chosen, token=session.held.token)
    session.recovered_from = f"savepoint {chosen.id}, batches {dict(chosen.batches)}"
    session.note("recover", session.recovered_from, savepoint=chosen.id)
    return manifest


def _reconcile(session: JobSession) -> None:
    """Bring the catalog up to Spark's log: a driver that was killed left the last batches out."""
    assert session.journal is not None  # noqa: S101  made on entry
    for plan in session.plans:
        facts, last = session.facts(plan), session.log(plan).last_committed()
        if last > facts.catalogued:
            session.book_of(plan).reconcile(
                catalogued=facts.catalogued, catalog=session.catalog, storage=session.journal.storage
            )
            session.manifest = session.manifest.with_query(session.folders[plan.name], replace(facts, catalogued=last))


def _register(session: JobSession, known: Row | None) -> None:
    """Note a new generation or another topology in the catalog."""
    row = {
        "pipeline": session.topology.name,
        "generation": session.manifest.last_generation,
        "run_id": session.options.run_id,
        "at": datetime.now(UTC),
        "pipeline_id": session.manifest.pipeline_id,
        "fingerprint": session.topology.fingerprint,
        "topology": as_text(session.topology),
        "state_shape": list(session.topology.state_shape()),
    }
    if known is not None and all(known[n] == row[n] for n in ("generation", "pipeline_id", "topology")):
        return
    reason = "first start" if known is None else "changed"
    if known is not None and known["generation"] != row["generation"]:
        reason = "new generation"
    session.catalog.append("pipelines", [{**row, "reason": reason}])


def _return_sources(session: JobSession, stored: Manifest) -> None:
    """Note the offsets of sources that were taken out, and hand them back to those that return."""
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


def _preflight(session: JobSession) -> None:
    found = [
        finding
        for plan in session.plans
        for finding in findings(
            plan,
            session.query_folder(plan),
            session.manifest,
            session.facts(plan),
            {name: session.writer(name) for name in plan.sinks},
        )
    ]
    refuse(found, session.topology.name)
