"""The recovery sensor: a stream that ended without being told to is started again, with backoff and a limit."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import copy
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dagster import (
    DagsterInstance,
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

from rs_assets.engine.checkpoint import requests
from rs_assets.engine.checkpoint.lease import LeaseRow, read_lease
from rs_assets.orchestration.place import place_of_run
from rs_assets.orchestration.resource_keys import RUN
from rs_assets.orchestration.sensors import cursor
from rs_assets.orchestration.sensors.refusals import refusal_of, was_canceled
from rs_assets.orchestration.stream_assets import StreamAssets

# What was wished for one start: a second one would read everything again, or forget state again.
ONCE = ("new_generation", "reset_steps", "keep_state")
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


def recovery_sensor(assets: StreamAssets, policy: RecoveryPolicy = RecoveryPolicy()) -> SensorDefinition | None:
    """Starts a pipeline again when its `start` run failed or its lease went stale, or when a rescale stopped it.

    A person's Terminate is no failure, whatever it led to, and a start that was refused would be refused again.
    """
    topology = assets.topology
    job = f"{assets.label}_start"

    @sensor(
        name=f"{assets.label}_recovery",
        job_name=job,
        minimum_interval_seconds=15,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts {assets.name} again after a crash; at most {policy.restarts_per_hour} times an hour.",
    )
    def recovery(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen, run = cursor.load(context.cursor), _last_run(context, job)
        place = place_of_run(run)
        lease = read_lease(place.home.leases, topology.name)
        resume = requests.asked(place.job(topology), "resume")
        if resume is not None and resume["id"] != seen.get("resumed") and (lease is None or lease.free):
            tags = {"rs/resumes_after": resume["reason"]}
            request = RunRequest(run_key=f"resume:{resume['id']}", tags=tags, run_config=_again(run))
            return SensorResult(run_requests=[request], cursor=cursor.dump({**seen, "resumed": resume["id"]}))
        if run is None or run.run_id == seen.get("handled"):
            return SkipReason("the last failed run was already handled" if run is not None else "it was never started")
        reason = _reason(run, lease)
        calm = _calm(context.instance, run) if reason is not None else f"its last run is {run.status.value.lower()}"
        return SkipReason(calm) if reason is None or calm else _restart(seen, policy, run, reason, lease, time.time())

    return recovery


def _calm(instance: DagsterInstance, run: DagsterRun) -> str:
    """Why a run that has ended is not followed by another one all the same, empty if it is."""
    if was_canceled(instance, run.run_id):
        return "its last run was told to stop"
    refused = refusal_of(instance, run.run_id)
    return f"its start was refused ({refused}): a restart would be refused as well" if refused is not None else ""


def _last_run(context: SensorEvaluationContext, job: str) -> DagsterRun | None:
    runs = context.instance.get_runs(RunsFilter(job_name=job), limit=1)
    return runs[0] if runs else None


def _again(run: DagsterRun | None) -> dict[str, Any] | None:
    """The settings of a run for one that goes on from where it ended: without what was wished for once."""
    if run is None or not run.run_config:
        return None
    config: dict[str, Any] = copy.deepcopy(dict(run.run_config))
    settings = config.get("resources", {}).get(RUN, {}).get("config", {})
    for name in ONCE:
        settings.pop(name, None)
    return config


def _reason(run: DagsterRun, lease: LeaseRow | None) -> str | None:
    """Why `run` must be followed by another one; None if it goes on, ended well or was terminated by a person."""
    if run.status == DagsterRunStatus.FAILURE:
        return "its run failed"
    if run.status in ALIVE and lease is not None and lease.run_id == run.run_id and not lease.released:
        if lease.free:
            return "its process exited without releasing the lease"
        if lease.stale:
            return f"its lease is stale: no heartbeat for {lease.age.total_seconds():.0f} s"
    return None


def _restart(
    seen: dict[str, Any], policy: RecoveryPolicy, run: DagsterRun, reason: str, lease: LeaseRow | None, now: float
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
        "rs/recovers": run.run_id,
        "rs/recovery_reason": reason,
        "rs/lost_seconds": f"{lost:.0f}",
        "rs/restart": str(len(recent) + 1),
    }
    return SensorResult(
        run_requests=[RunRequest(run_key=f"recover:{run.run_id}", tags=tags, run_config=_again(run))],
        cursor=cursor.dump({**seen, "handled": run.run_id, "restarts": [*recent, now]}),
    )
