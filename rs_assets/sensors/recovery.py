"""The recovery sensor: a stream that ended without being told to is started again, with backoff and a limit."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dagster import (
    DagsterEventType,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster_shared.error import SerializableErrorInfo

from pipelines.stream.pipeline import Pipeline
from resources.checkpoint import requests
from resources.checkpoint.lease import LeaseRow, read_lease
from resources.errors import StartRefused, UserError
from resources.home import Home
from rs_assets.assets import pipeline_name
from rs_assets.sensors import cursor

REFUSALS = frozenset(kind.__name__ for base in (StartRefused, UserError) for kind in (base, *base.__subclasses__()))
ALIVE = (DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """How often a pipeline is started again.

    The first restart comes at once, each further one within an hour after twice the time, from `backoff` up to
    `most_backoff`; more than `restarts_per_hour` are not made: then a person has to look.
    """

    backoff: timedelta = timedelta(seconds=10)
    most_backoff: timedelta = timedelta(minutes=10)
    restarts_per_hour: int = 6

    def wait_s(self, restarts: int) -> float:
        """Seconds that must pass since the last of `restarts` restarts within the hour.

        >>> [RecoveryPolicy().wait_s(n) for n in (0, 1, 2, 3, 9)]
        [0.0, 10.0, 20.0, 40.0, 600.0]
        """
        if not restarts:
            return 0.0
        return float(min(self.backoff.total_seconds() * 2 ** (restarts - 1), self.most_backoff.total_seconds()))


def recovery_sensor(pipeline: Pipeline, policy: RecoveryPolicy = RecoveryPolicy()) -> SensorDefinition | None:
    """Starts `pipeline` again when its `start` run failed or its lease went stale, or when a rescale stopped it.

    A person's Terminate is no failure, and a start that was refused would be refused again.
    """
    topology = pipeline.topology
    job = f"{pipeline_name(topology)}_start"

    @sensor(
        name=f"{pipeline_name(topology)}_recovery",
        job_name=job,
        minimum_interval_seconds=15,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts {pipeline.name} again after a crash; at most {policy.restarts_per_hour} times an hour.",
    )
    def recovery(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen = cursor.load(context.cursor)
        lease = read_lease(Home.default().leases, topology.name)
        resume = requests.asked(Home.default().job(topology.namespace, topology.job), "resume")
        if resume is not None and resume["id"] != seen.get("resumed") and (lease is None or lease.free):
            request = RunRequest(run_key=f"resume:{resume['id']}", tags={"rs/resumes_after": resume["reason"]})
            return SensorResult(run_requests=[request], cursor=cursor.dump({**seen, "resumed": resume["id"]}))
        run = _last_run(context, job)
        if run is None:
            return SkipReason("it was never started")
        if run.run_id == seen.get("handled"):
            return SkipReason("its last run was seen to")
        reason = _reason(run, lease)
        if reason is None:
            return SkipReason(f"its last run is {run.status.value.lower()}")
        refused = _refusal_of(context, run.run_id)
        if refused is not None:
            return SkipReason(f"its start was refused ({refused}): a restart would be refused as well")
        return _restart(seen, policy, run.run_id, reason, lease, time.time())

    return recovery


def _last_run(context: SensorEvaluationContext, job: str) -> DagsterRun | None:
    runs = context.instance.get_runs(RunsFilter(job_name=job), limit=1)
    return runs[0] if runs else None


def _refusal_of(context: SensorEvaluationContext, run_id: str) -> str | None:
    """The error that refused the start of a run, None if it failed for another reason."""
    entries = context.instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE)
    events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
    found = (refusal(event.step_failure_data.error) for event in events)
    return next((name for name in found if name is not None), None)


def refusal(error: SerializableErrorInfo | None) -> str | None:
    """The class of a refused start in a chain of errors, None if there is none; such a failure needs a person."""
    while error is not None:
        if error.cls_name in REFUSALS:
            return error.cls_name
        error = error.cause or error.context
    return None


def _reason(run: DagsterRun, lease: LeaseRow | None) -> str | None:
    """Why `run` must be followed by another one; None if it goes on, ended well or was terminated by a person."""
    if run.status == DagsterRunStatus.FAILURE:
        return "its run failed"
    if run.status in ALIVE and lease is not None and lease.run_id == run.run_id and not lease.released:
        if lease.free:
            return "its process has ended without a word"
        if lease.stale:
            return f"its lease is stale: no heartbeat for {lease.age.total_seconds():.0f} s"
    return None


def _restart(
    seen: dict[str, Any], policy: RecoveryPolicy, run_id: str, reason: str, lease: LeaseRow | None, now: float
) -> SensorResult | SkipReason:
    recent = [at for at in seen.get("restarts", []) if now - at < timedelta(hours=1).total_seconds()]
    if len(recent) >= policy.restarts_per_hour:
        return SkipReason(
            f"{reason}, but it was started again {len(recent)} times within the hour: see why it fails, then start it"
        )
    wait = policy.wait_s(len(recent)) - (now - max(recent, default=0.0))
    if wait > 0:
        return SkipReason(f"{reason}; the next restart comes in {wait:.0f} s")
    lost = max(lease.age.total_seconds(), 0.0) if lease is not None else 0.0
    tags = {
        "rs/recovers": run_id,
        "rs/recovery_reason": reason,
        "rs/lost_seconds": f"{lost:.0f}",
        "rs/restart": str(len(recent) + 1),
    }
    return SensorResult(
        run_requests=[RunRequest(run_key=f"recover:{run_id}", tags=tags)],
        cursor=cursor.dump({**seen, "handled": run_id, "restarts": [*recent, now]}),
    )
