"""The end of a run: records input, open state and sink progress in the manifest."""

from __future__ import annotations

from dataclasses import replace

from rs_assets.runtime.job.session import NOT_FETCHED, JobSession
from rs_assets.runtime.job.tidying import NOT_TIDY, tidy_crowded
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.upkeep.savepoints import savepoint
from rs_assets.runtime.upkeep.state import previews, snapshot_state

# Effects of failing background tasks.
NOT_SAVED, NOT_AS_ROWS = "no savepoint was taken", "the state was not written as rows"
NOT_UPLOADED = "the end of the run was not uploaded"


def record(session: JobSession, *, sealed: bool) -> RunReport:
    """Record the input, and sum up. `sealed`: the input of the generation has ended."""
    assert session.journal is not None  # made on entry
    if sealed and not session.manifest.sealed:
        for query in session.queries.values():
            query.work.book.finished()
    session.journal.close()
    with session.failures.guarding(NOT_TIDY):
        tidy_crowded(session)
    for following in session.followings:
        with session.failures.guarding(following.effect):
            following.finish()
    read = any(query.report.rows_read for query in session.queries.values())
    session.manifest = replace(
        session.manifest,
        inputs=_inputs(session),
        sealed=session.manifest.sealed or sealed,
        code=session.topology.code if read else session.manifest.code,
    )
    for query in session.queries.values():
        facts = session.facts(query.plan)
        folder = session.folders[query.plan.name]
        known = replace(
            facts,
            rows_open=query.report.rows_open,
            query_id=query.log.query_id,
            sinks={**facts.sinks, **query.work.notes.had},
            catalogued=session.journal.written.get(folder, facts.catalogued),
        )
        session.manifest = session.manifest.with_query(folder, known)
    session.save()
    session.recorded = True
    with session.failures.guarding(NOT_FETCHED):
        for query in session.queries.values():
            if query.work.exchange is not None:
                query.work.exchange.fetch()
    _finish_uploads(session)
    _save_by_policy(session)
    reports = [(plan, session.report_of(plan)) for plan in session.plans]
    # A query without a batch has unchanged state: showing it again would be most of the work of such a run.
    open_now = [plan for plan, report in reports if report.batches and report.rows_open]
    session.previews = previews(session.topology, open_now, session.options)
    return session.report()


def _finish_uploads(session: JobSession) -> None:
    """Upload the end of the run; without it the next home would compute the last batches again."""
    if session.uploader is not None and any(session.log(plan).begun for plan in session.plans):
        with session.failures.guarding(NOT_UPLOADED):
            session.uploader.finish()


def _inputs(session: JobSession) -> dict[str, dict[str, int]]:
    """The input state of each source in the manifest, with the input of this run."""
    inputs = {name: dict(kept) for name, kept in session.manifest.inputs.items()}
    for query in session.queries.values():
        for name, kept in query.work.read.items():
            inputs.setdefault(name, {}).update(kept)
    return inputs


def _save_by_policy(session: JobSession) -> None:
    """Take a savepoint at the end, if the policy requires it; a failure is reported and does not undo the run."""
    policy, queries = session.options.savepoints, session.queries.values()
    if not policy.at_end or policy.local_storage_only or not any(query.report.batches for query in queries):
        return
    if session.topology.savable:
        with session.failures.guarding(NOT_SAVED):
            savepoint(session.topology, session.options, note="end of the run")
    if policy.state_rows and any(plan.stateful for plan in session.plans):
        with session.failures.guarding(NOT_AS_ROWS):
            snapshot_state(session.topology, session.options)
