"""Outputs that come back into a pipeline which has gone back without them."""

from __future__ import annotations

from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.connectors.sink import BatchMark, Rewinding
from rs_assets.errors import SinkError, StartRefused
from rs_assets.runtime.identity import queries_of_now
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.upkeep.returns import SinkReturn, last_point
from rs_assets.topology.nodes.shuffle import ShuffleWrite


def return_outputs(session: JobSession, stored: Manifest) -> None:
    """Undo in each output that comes back the batches that were undone while the pipeline was without it.

    It would take the next batch for the first one of a new generation, or have the rows that are read again twice.
    StartRefused if its rows cannot be removed. A start that is killed afterwards does it again.
    """
    known = queries_of_now(session.topology, stored)
    for plan in session.plans:
        before, facts = known.get(session.folders[plan.name]), session.facts(plan)
        if before is not None and before.generation == facts.generation:
            for sink in plan.sinks:
                if sink not in session.replaced:
                    _return(session, before, sink, session.log(plan).last_committed())


def _return(session: JobSession, facts: QueryFacts, sink: str, last: int) -> None:
    point = last_point(facts, sink, last)
    if point is None or isinstance(session.topology[sink], ShuffleWrite):
        return
    writer, manifest = session.writer(sink), session.manifest
    if not isinstance(writer, Rewinding):
        raise _refused(sink, "it lacks the methods of rs_assets.sinks.Rewinding")
    stored = manifest.stored_name(sink)
    kept = BatchMark(manifest.pipeline_id, point.generation, stored, point.batch, session.held.token, session.claim)
    made = SinkReturn(name=sink, writer=writer, kept=kept, begun=kept.of_generation(facts.generation), had=-1)
    try:
        made.check()
        made.act()
    except SinkError as error:
        raise _refused(sink, error.what, **error.facts) from error


def _refused(sink: str, why: str, **facts: object) -> StartRefused:
    return StartRefused(
        f"the output {sink!r} comes back, and the pipeline has gone back without it: {why}",
        remedy="write to another table or folder under another name (name=), which gets the rows from now on; or remove"
        " its rows and begin a new generation (--new-generation)",
        **facts,
    )
