"""A start without a manifest: a first one, or that of a pipeline whose home was lost."""

from __future__ import annotations

from dataclasses import replace

from rs_assets.checkpoint.manifest import Manifest
from rs_assets.errors import CheckpointError, RsError
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.upkeep.claims import Trust, claim_sinks, lost_pipeline
from rs_assets.runtime.upkeep.ownership import Known, known_of, newest_of, not_lost, savepoints_of
from rs_assets.runtime.upkeep.savepoints import bring_back
from rs_assets.runtime.upkeep.uploads import continued_elsewhere, recovered


def without_manifest(session: JobSession) -> Manifest:
    """A new manifest for a pipeline that never ran. If it did, its checkpoint is lost: recover it, or fail.

    With `new_generation` it starts over.
    """
    topology, options = session.topology, session.options
    known = known_of(options, topology.namespace, topology.job)
    if known is None:
        return _afresh(session) if options.new_generation else _first(session)
    if options.new_generation:
        return _over(session, known)
    recovered = _recover_lost(session, known.pipeline_id)
    if recovered is None and _never_committed(session):
        session.note("recover", "no batch had been committed")
        return _over(session, known)
    if recovered is None:
        raise CheckpointError(
            f"the checkpoint of {topology.name} is gone; the catalog has generation {known.generation}",
            remedy="put it back or restore a savepoint (rs-assets restore); or start over with --new-generation",
            file=session.folder,
        )
    return recovered


def outdated(session: JobSession, stored: Manifest) -> Manifest | None:
    """The manifest of the newest upload if another home has continued this one's pipeline since; else None."""
    if session.options.new_generation or not continued_elsewhere(session.topology, session.options, stored):
        return None
    return _from_upload(session, stored.pipeline_id)


def _over(session: JobSession, known: Known) -> Manifest:
    """A new generation of a pipeline that the catalog knows."""
    fresh = Manifest(pipeline_id=known.pipeline_id, generation=known.generation)
    claimed = claim_sinks(session.topology, fresh, session.held, session.options, trust=Trust.LEASES)
    return claimed.applied_to(replace(fresh, generation=claimed.generation))


def _never_committed(session: JobSession) -> bool:
    """Whether a home was lost before its first batch: uploads precede rows, and no store, catalog or sink has one.

    False without uploads: then only the lost checkpoint knew it.
    """
    if not session.options.savepoints.upload or session.catalog.last("splits", pipeline=session.topology.name):
        return False
    return lost_pipeline(session.topology, session.options) is None


def _afresh(session: JobSession) -> Manifest:
    """A new generation of the pipeline whose home was lost, if its outputs show one; else a first one."""
    lost = lost_pipeline(session.topology, session.options)
    if lost is None:
        return Manifest.new()
    fresh = Manifest(pipeline_id=lost)
    claimed = claim_sinks(session.topology, fresh, session.held, session.options, trust=Trust.PERSON)
    return claimed.applied_to(replace(fresh, generation=claimed.generation))


def _first(session: JobSession) -> Manifest:
    """A first generation, or the newest upload of a home that was lost.

    Refused if savepoints show that a home was lost. An unreachable store is reported.
    """
    uploaded = _from_upload(session)
    if uploaded is not None:
        return uploaded
    try:
        found = savepoints_of(session.options).savepoints(session.topology.namespace, session.topology.job)
    except (RsError, OSError) as error:
        what = error.what if isinstance(error, RsError) else str(error)
        session.warnings = (*session.warnings, f"cannot check for savepoints of it: {what}")
        return Manifest.new()
    if found:
        raise not_lost(session.topology, found)
    return Manifest.new()


def _from_upload(session: JobSession, pipeline_id: str | None = None) -> Manifest | None:
    """The manifest of the newest upload, whose sinks stay as they are; None without one."""
    found = recovered(session.topology, session.options, session.held, pipeline_id)
    if found is None:
        return None
    manifest, content = found
    session.recovered_from = f"upload, batches {dict(content.batches)}"
    session.note("recover", session.recovered_from, upload=content.id)
    return manifest


def _recover_lost(session: JobSession, pipeline_id: str) -> Manifest | None:
    """The manifest of the newest upload, else of the newest savepoint, restored with the sinks; None without both."""
    topology, options = session.topology, session.options
    uploaded = _from_upload(session, pipeline_id)
    if uploaded is not None:
        return uploaded
    if options.savepoints.local_storage_only:
        return None
    chosen = newest_of(options, topology.namespace, topology.job, pipeline_id)
    if chosen is None:
        return None
    manifest = bring_back(topology, options, chosen, lease=session.held, trust=Trust.LEASES)
    session.recovered_from = f"savepoint {chosen.id}, batches {dict(chosen.batches)}"
    session.note("recover", session.recovered_from, savepoint=chosen.id)
    return manifest
