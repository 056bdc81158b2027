"""Runs whose process is gone: Dagster takes them for running ones, and nothing else would end them.

Its code server notices the end of a process that it has launched, unless both were killed, or there is a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil

from rs_assets.common.processes import has_ended, started_s, this_host

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

    from rs_assets.catalog.lease import LeaseRow
    from rs_assets.topology.topology import Topology

# Metadata of a run's process. It is in an event, because tags are copied into copies of the run.
HOST, PID, STARTED = "host", "process", "process_started"
# It is the first event of the run; a stream of a month has a million others, because ops report what they have done.
FIRST = 10
# The tag of a run whose end was recorded later, so that its time is unknown.
LOST = "rs/lost"
GONE = "its process is gone: it was killed, or its terminal was closed; the next run goes on from its last commit"
OVERTAKEN = "it gave no sign of life, and did not release its pipeline: another run has it now, from its last commit on"


def note_process(instance: DagsterInstance, job: str, run_id: str, process: psutil.Process | None = None) -> None:
    """Record in Dagster that a run is executed by `process`, by default this one; the run may not exist yet."""
    from dagster._core.events import EngineEventData

    mine = process or psutil.Process()
    facts = {HOST: this_host(), PID: mine.pid, STARTED: started_s(mine)}
    said = f"runs at a terminal of {this_host().split('/')[0]}, process {mine.pid}"
    instance.report_engine_event(said, engine_event_data=EngineEventData(facts), job_name=job, run_id=run_id)


def end_orphans(instance: DagsterInstance, topology: Topology) -> None:
    """Mark the runs of a pipeline as failed whose process on this machine is gone; others are left as they are."""
    from dagster import RunsFilter
    from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

    going = RunsFilter(tags={"rs/pipeline": topology.name}, statuses=NOT_FINISHED_STATUSES)
    for run in instance.get_runs(going):
        if is_gone(instance, run):
            _end(instance, run, GONE)


def end_former(instance: DagsterInstance, before: LeaseRow | None) -> None:
    """Mark the run as failed that held a pipeline's lease `before` and did not release it; another run has it now."""
    run = None if before is None or before.released else instance.get_run_by_id(before.run_id)
    if run is not None and not run.is_finished:
        _end(instance, run, OVERTAKEN)


def _end(instance: DagsterInstance, run: DagsterRun, why: str) -> None:
    from dagster import DagsterRunStatus

    instance.add_run_tags(run.run_id, {LOST: "true"})
    canceling = run.status == DagsterRunStatus.CANCELING
    (instance.report_run_canceled if canceling else instance.report_run_failed)(run, why)


def is_gone(instance: DagsterInstance, run: DagsterRun) -> bool:
    """Whether the process of a run at a terminal was on this machine, since its boot, and has ended."""
    facts = _facts(instance, run)
    return facts is not None and has_ended(facts[HOST], facts[PID], facts[STARTED])


def _facts(instance: DagsterInstance, run: DagsterRun) -> dict[str, Any] | None:
    """What was recorded about the process of `run`; None for a run without a terminal."""
    from dagster import DagsterEventType

    found = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ENGINE_EVENT, limit=FIRST)
    for record in found.records:
        event = record.event_log_entry.dagster_event
        known = event.engine_event_data.metadata if event is not None else {}
        if {HOST, PID, STARTED} <= known.keys():
            return {name: known[name].value for name in (HOST, PID, STARTED)}
    return None
