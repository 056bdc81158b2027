"""The runs of a stream, from Dagster, the lease of its pipeline, and the processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from rs_assets.catalog.desired_state import DesiredState
from rs_assets.catalog.lease import BEATS, LeaseRow
from rs_assets.dagster.runs.orphans import LOST, is_gone
from rs_assets.dagster.runs.run_tags import ENDED, RECOVERS, answers_of, waits
from rs_assets.dagster.sensors.refusals import failed_with, refusal_of, was_canceled
from rs_assets.dagster.sensors.verdict import End, Ran, Verdict, judge
from rs_assets.errors import PipelineBusyError

# The newest runs that are looked at, besides the run of the desired state.
MOST_RUNS = 25
# A run without a sign of life for so long, and without the lease, hangs and does not block others.
LAUNCHED_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class StreamRuns:
    """The runs of one stream that `runs` selects in Dagster, its desired state, and its lease."""

    instance: DagsterInstance
    records: Sequence[RunRecord]
    desired: DesiredState | None
    lease: LeaseRow | None

    @classmethod
    def of(
        cls, instance: DagsterInstance, runs: RunsFilter, desired: DesiredState | None, lease: LeaseRow | None
    ) -> StreamRuns:
        """The current runs."""
        records = list(instance.get_run_records(runs, limit=MOST_RUNS))
        if desired is not None and all(record.dagster_run.run_id != desired.run_id for record in records):
            records += instance.get_run_records(RunsFilter(run_ids=[desired.run_id]))
        stream = desired.run_id if desired is not None else ""
        runs_of_stream = [each for each in records if each.dagster_run.run_id == stream or not waits(each.dagster_run)]
        return cls(instance, runs_of_stream, desired, lease)

    def run(self, run_id: str) -> DagsterRun | None:
        """One of the runs."""
        return next((r.dagster_run for r in self.records if r.dagster_run.run_id == run_id), None)

    def count(self, tag: str, value: str) -> int:
        """How many runs of Dagster have the tag, also those that are too old for `records`."""
        return self.instance.get_runs_count(RunsFilter(tags={tag: value}))

    @property
    def holder(self) -> str:
        """The run that holds the lease and shows signs of life; empty without one."""
        return self.lease.run_id if self.lease is not None and not (self.lease.free or self.lease.stale) else ""

    @property
    def is_refused(self) -> bool:
        """Whether the newest run was refused because another one was active."""
        newest = self.records[0].dagster_run if self.records else None
        failed = newest is not None and newest.status == DagsterRunStatus.FAILURE
        return newest is not None and failed and failed_with(self.instance, newest.run_id, PipelineBusyError)

    def verdict(self) -> Verdict:
        """Whether to start the stream again."""
        runs = [*(self._ran(record) for record in self.records), *self._unrecorded()]
        return judge(self.desired, runs, self._end_of, holder=self.holder)

    def before(self, run: DagsterRun) -> Verdict:
        """The verdict over the ended runs, for the restart `run`, whose tags have the end of the previous run."""
        follows, ended = run.tags.get(RECOVERS), float(run.tags.get(ENDED, "0"))
        others = [self._ran(record) for record in self.records if record.dagster_run.run_id != run.run_id]
        seen = [replace(ran, ended=max(ended, ran.began)) if ran.run_id == follows else ran for ran in others]
        over = [ran for ran in seen if ran.ended is not None]
        return judge(self.desired, [*over, *self._unrecorded()], self._end_of)

    def _unrecorded(self) -> Iterator[Ran]:
        """The run of the desired state if Dagster does not know it; it ended with the last heartbeat of its lease."""
        desired, lease = self.desired, self.lease
        if desired is not None and self.run(desired.run_id) is None:
            seen = _seconds(lease.renewed_at) if lease is not None and lease.run_id == desired.run_id else desired.at
            silent_s = self._silent_s(desired.run_id)
            yield Ran(run_id=desired.run_id, began=desired.since, ended=max(seen, desired.since), silent_s=silent_s)

    def _ran(self, record: RunRecord) -> Ran:
        run, began = record.dagster_run, max(record.start_time or 0.0, _seconds(record.create_timestamp))
        ended = max(self._seen_last(record, began), began) if run.is_finished else self._lost(record, began)
        asked_for, silent_s = answers_of(run.tags) is not None, self._silent_s(run.run_id)
        return Ran(run_id=run.run_id, began=began, ended=ended, asked_for=asked_for, silent_s=silent_s)

    def _silent_s(self, run_id: str) -> float:
        """How long a run may have lived after its last heartbeat: until the next one, unless it released its lease."""
        lease = self.lease
        return lease.ttl_ms / 1000 / BEATS if lease is not None and lease.run_id == run_id and not lease.released else 0

    def _seen_last(self, record: RunRecord, began: float) -> float:
        """The end of a finished run: Dagster may have noticed it later."""
        run = record.dagster_run
        if self.lease is not None and self.lease.run_id == run.run_id:
            return _seconds(self.lease.renewed_at)
        return began if LOST in run.tags else record.end_time or _seconds(record.update_timestamp)

    def _lost(self, record: RunRecord, began: float) -> float | None:
        """The last sign of life of a run that Dagster takes for a running one but that is not; else None."""
        run, lease = record.dagster_run, self.lease
        mine = lease if lease is not None and lease.run_id == run.run_id else None
        if mine is not None and not mine.released:
            return max(_seconds(mine.renewed_at), began) if mine.free or mine.stale else None
        if is_gone(self.instance, run):
            return began
        alive = max(_seconds(record.update_timestamp), _seconds(mine.renewed_at) if mine is not None else 0.0)
        waits = run.status in (DagsterRunStatus.QUEUED, DagsterRunStatus.MANAGED)
        hangs = not waits and time.time() - alive > LAUNCHED_WITHIN.total_seconds()
        return began if hangs else None

    def _end_of(self, ran: Ran) -> End:
        run = self.run(ran.run_id)
        if run is None:
            return End(kind="ended", why="it was not started by Dagster: start it again yourself")
        if run.status == DagsterRunStatus.CANCELED or was_canceled(self.instance, run.run_id):
            return End(kind="stopped", why="its last run was asked to stop")
        if run.status == DagsterRunStatus.SUCCESS:
            return End(kind="ended", why="its last run is success")
        return self._failure_of(run) if run.status == DagsterRunStatus.FAILURE else _failed(self._how_lost(run))

    def _failure_of(self, run: DagsterRun) -> End:
        if failed_with(self.instance, run.run_id, PipelineBusyError):
            return End(kind="busy", why="another run was going")
        refused = refusal_of(self.instance, run.run_id)
        if refused is not None:
            return End(kind="refused", why=f"its start was refused ({refused}): a restart would be refused as well")
        return _failed("its run failed")

    def _how_lost(self, run: DagsterRun) -> str:
        lease = self.lease
        if lease is None or lease.run_id != run.run_id or lease.released:
            return "its process ended without a trace"
        if lease.free:
            return "its process exited without releasing the lease"
        return f"its lease is stale: no heartbeat for {lease.age.total_seconds():.0f} s"


def refuse_if_stopped(
    instance: DagsterInstance, run: DagsterRun, desired: DesiredState | None, before: LeaseRow | None = None
) -> None:
    """PipelineBusyError if the stream was stopped since recovery requested `run`.

    The pipeline's lease must be held; `before` is the previous one.
    """
    verdict = StreamRuns.of(instance, RunsFilter(job_name=run.job_name), desired, before).before(run)
    if verdict.end == "stopped":
        raise PipelineBusyError(
            f"the stream was stopped after this run was asked for: {verdict.why}",
            remedy="nothing to do: the stream is to stay stopped",
        )


def _failed(why: str) -> End:
    return End(kind="failed", why=why)


def _seconds(at: datetime) -> float:
    return at.timestamp()
