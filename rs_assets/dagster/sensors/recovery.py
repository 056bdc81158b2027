"""The recovery sensor: restarts a stream that ended without a requested stop, with backoff and a limit."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dagster import (
    AssetKey,
    AssetObservation,
    DagsterInstance,
    DagsterRun,
    DefaultSensorStatus,
    MetadataValue,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.catalog.desired_state import DesiredState, read_desired_state
from rs_assets.catalog.lease import read_lease
from rs_assets.common.plural import count_of
from rs_assets.dagster.assets.causes import cause_in
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import place_of_run
from rs_assets.dagster.resources.resource_keys import RUN
from rs_assets.dagster.runs.run_tags import (
    ANSWERS,
    ENDED,
    FEW,
    LOST_SECONDS,
    RECOVERS,
    RECOVERY_REASON,
    RESUMES,
    RESUMES_AFTER,
    RESUMES_RUN,
    first_of_stream,
)
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.resuming import resume_request
from rs_assets.dagster.sensors.stream_runs import StreamRuns
from rs_assets.dagster.sensors.verdict import Verdict

# Settings of one start only: a second start would read everything again, or forget state again.
ONCE = ("new_generation", "reset_steps", "keep_state", "standby")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """How often a pipeline is restarted.

    The first restart is immediate. Each further one within an hour waits twice as long, from `backoff` up to
    `most_backoff`. After `restarts_per_hour` restarts a person has to look.
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
    """Restarts a pipeline when its `start` run failed or its lease went stale, or when an upkeep job stopped it.

    The run that ended last decides: see `verdict.judge`. A requested stop is final; starts that were refused because
    the stream was running are ignored; starts that were refused for good would be refused again.
    """
    topology = assets.topology
    job, often = f"{assets.label}_start", count_of(policy.restarts_per_hour, "time")

    @sensor(
        name=f"{assets.label}_recovery",
        job_name=job,
        minimum_interval_seconds=15,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts {assets.name} again after a crash; at most {often} an hour.",
    )
    def recovery(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen, newest = cursor.load(context.cursor), _newest(context, job)
        place = place_of_run(newest)
        folder, lease = place.job(topology), read_lease(place.home.leases, topology.name)
        stream = StreamRuns.of(context.instance, RunsFilter(job_name=job), read_desired_state(folder), lease)
        verdict = stream.verdict()
        if verdict.act == "wait":
            return SkipReason(verdict.why)
        resume = resume_request(folder, context.instance)
        if resume is not None and (lease is None or lease.free):
            tries = _tries(stream, resume)
            if tries or resume["id"] != seen.get("resumed"):
                return _resumed(seen, policy, stream, verdict, newest, resume, tries)
        if verdict.act == "leave":
            return SkipReason(verdict.why)
        return _restarted(assets, seen, policy, stream, verdict)

    return recovery


def answers(desired: DesiredState | None) -> dict[str, str]:
    """The tag of a restart. It is refused if the desired state has changed meanwhile."""
    return {ANSWERS: desired.id if desired is not None else ""}


def _newest(context: SensorEvaluationContext, job: str) -> DagsterRun | None:
    return first_of_stream(context.instance.get_runs(RunsFilter(job_name=job), limit=FEW))


def _again(run: DagsterRun | None) -> dict[str, Any] | None:
    """The settings of a run for its continuation, without settings of one start."""
    if run is None or not run.run_config:
        return None
    config: dict[str, Any] = copy.deepcopy(dict(run.run_config))
    settings = config.get("resources", {}).get(RUN, {}).get("config", {})
    for name in ONCE:
        settings.pop(name, None)
    return config


def _tries(stream: StreamRuns, resume: dict[str, Any]) -> int:
    """How many runs were launched for a request of an upkeep job; the request is there until one is the stream."""
    return stream.count(RESUMES, resume["id"])


def _resumed(
    seen: dict[str, Any],
    policy: RecoveryPolicy,
    stream: StreamRuns,
    verdict: Verdict,
    newest: DagsterRun | None,
    resume: dict[str, Any],
    tries: int,
) -> SensorResult | SkipReason:
    """Restart after an upkeep job that has stopped it; again if the run for that failed before it was the stream.

    A stream that another Dagster has started is left to that one.
    """
    was = stream.run(stream.desired.run_id) if stream.desired is not None else None
    if stream.desired is not None and was is None:
        return SkipReason("it was not started by this Dagster: the one that has starts it again")
    if verdict.end == "stopped" or (tries and verdict.end == "refused"):
        return SkipReason(verdict.why)
    now, recent = time.time(), _recent(seen)
    pause = _pause(policy, recent, now) if tries else ""
    if pause:
        return SkipReason(f"its start after {resume['reason']} failed{pause}")
    upkeep = stream.instance.get_run_by_id(resume["run"]) if resume.get("run") else None
    cause = {RESUMES_RUN: upkeep.run_id, **cause_in(upkeep.tags)} if upkeep is not None else {}
    tags = {RESUMES: resume["id"], RESUMES_AFTER: resume["reason"], **cause, **answers(stream.desired)}
    run_key = f"resume:{resume['id']}:{tries}" if tries else f"resume:{resume['id']}"
    request = RunRequest(run_key=run_key, tags=tags, run_config=_again(was or newest))
    moved = {**seen, "resumed": resume["id"], "restarts": [*recent, now] if tries else recent}
    return SensorResult(run_requests=[request], cursor=cursor.dump(moved))


def _recent(seen: dict[str, Any]) -> list[float]:
    """The restarts within the last hour."""
    hour, now = timedelta(hours=1).total_seconds(), time.time()
    return [at for at in seen.get("restarts", []) if now - at < hour]


def _pause(policy: RecoveryPolicy, recent: Sequence[float], now: float) -> str:
    """Why the next restart has to wait, as the end of a sentence; empty if it has not."""
    if len(recent) >= policy.restarts_per_hour:
        return (
            f", but it was restarted {count_of(len(recent), 'time')} within the hour: see why it fails, then start it"
        )
    wait = policy.wait_s(len(recent)) - (now - max(recent, default=0.0))
    return f"; the next restart comes in {wait:.0f} s" if wait > 0 else ""


def _restarted(
    assets: StreamAssets, seen: dict[str, Any], policy: RecoveryPolicy, stream: StreamRuns, verdict: Verdict
) -> SensorResult | SkipReason:
    """Restart with the settings of the deciding run, if it is time."""
    before = stream.count(RECOVERS, verdict.run_id)
    # Earlier restarts ended without a desired state, because another run was active.
    handled = f"{verdict.run_id}:{before}" if before else verdict.run_id
    if handled == seen.get("handled"):
        return SkipReason("the last failed run was already handled")
    now, recent = time.time(), _recent(seen)
    pause = _pause(policy, recent, now)
    if pause:
        return SkipReason(f"{verdict.why}{pause}")
    tags = {
        RECOVERS: verdict.run_id,
        ENDED: f"{verdict.ended:.6f}",
        RECOVERY_REASON: verdict.why,
        LOST_SECONDS: f"{max(now - verdict.ended, 0.0):.0f}",
        "rs/restart": str(len(recent) + 1),
        **answers(stream.desired),
    }
    request = RunRequest(run_key=f"recover:{handled}", tags=tags, run_config=_again(stream.run(verdict.run_id)))
    return SensorResult(
        run_requests=[request],
        asset_events=[_lost(assets, stream, verdict, source.name) for source in assets.topology.origins],
        cursor=cursor.dump({**seen, "handled": handled, "restarts": [*recent, now]}),
    )


def _lost(assets: StreamAssets, stream: StreamRuns, verdict: Verdict, source: str) -> AssetObservation:
    """The event of a lost stream, with the newest checkpoint of its source in Dagster's log."""
    key = assets.key(source)
    return AssetObservation(
        key,
        description=f"lost: {verdict.why}; a restart was requested",
        metadata={"lost_run": MetadataValue.dagster_run(verdict.run_id), **_reported(stream.instance, key)},
    )


def _reported(instance: DagsterInstance, key: AssetKey) -> dict[str, Any]:
    """The newest batch that an event of the asset names; a run calls it `batch`, the checkpoint sensor `batch_id`."""
    newest = instance.get_latest_materialization_event(key)
    if newest is None or newest.asset_materialization is None:
        return {}
    metadata = newest.asset_materialization.metadata
    found = [str(metadata[name].value) for name in ("batch_id", "batch") if name in metadata]
    at = MetadataValue.timestamp(newest.timestamp)
    return {"reported_batch": found[0], "reported_at": at} if found else {}
