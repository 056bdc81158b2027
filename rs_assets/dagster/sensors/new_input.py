"""The sensor of new input, which requests runs."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from dagster import (
    DagsterRunStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.catalog.lease import read_lease
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import instance_of, place_of
from rs_assets.dagster.runs.orphans import is_gone
from rs_assets.dagster.runs.run_tags import waits
from rs_assets.dagster.sensors.inputs import states_of, watched
from rs_assets.dagster.sensors.refusals import failed_with
from rs_assets.errors import PipelineBusyError, SourceReadError
from rs_assets.topology.topology import Topology

# A run without the lease: it takes a while until it has it. Later than this after its launch it hangs, and blocks none.
WAITING = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
)
LAUNCHED_WITHIN = timedelta(minutes=10)


def new_input_sensor(assets: StreamAssets) -> SensorDefinition | None:
    """Requests a run when files or topics of an unbounded pipeline have grown; None without such sources."""
    topology = assets.topology
    sources = watched(topology)
    if not sources:
        return None
    name = assets.label

    @sensor(
        name=f"{name}_new_input",
        job_name=f"{name}_run",
        minimum_interval_seconds=30,
        description=f"Runs {assets.name} when its input has grown.",
    )
    def new_input(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        # The cursor stays: new input is requested after the current run.
        busy = _busy(context, topology, reading=(f"{name}_run", f"{name}_start"))
        if busy is not None:
            return SkipReason(busy)
        try:
            seen = input_state(states_of(sources, place_of(context, topology).home))
        except SourceReadError as error:
            return SkipReason(str(error))
        if seen != context.cursor:
            # Without a key: after a rotation input may look as it did before, and Dagster skips a key that it knows.
            return SensorResult(run_requests=[RunRequest()], cursor=seen)
        refused = _refused_as_busy(context, f"{name}_run")
        if refused is not None:
            return SensorResult(run_requests=[RunRequest(run_key=f"{seen}:{refused}")], cursor=seen)
        return SkipReason("no new input")

    return new_input


def _busy(context: SensorEvaluationContext, topology: Topology, *, reading: Sequence[str]) -> str | None:
    """Why a run that is requested now would be refused; None if it would not. The jobs `reading` read the input."""
    lease = read_lease(place_of(context, topology).home.leases, topology.name)
    if lease is not None and not lease.free and not lease.stale:
        return f"run {lease.run_id} goes on"
    instance, mine = instance_of(context), {"rs/pipeline": topology.name}
    if instance is None:
        return None
    since = datetime.now(UTC) - LAUNCHED_WITHIN
    runs = [*instance.get_runs(RunsFilter(tags=mine, statuses=WAITING, updated_after=since))]
    # While the daemon is away a run may be in the queue for hours; it is launched once the daemon is back.
    queued = instance.get_runs(RunsFilter(tags=mine, statuses=[DagsterRunStatus.QUEUED]))
    runs += [run for run in queued if run.job_name in reading]
    first = next((run for run in runs if not (waits(run) or is_gone(instance, run))), None)
    return f"run {first.run_id} begins or ends" if first is not None else None


def _refused_as_busy(context: SensorEvaluationContext, job: str) -> str | None:
    """The newest run of the job if it was refused because another run was active; else None."""
    instance = instance_of(context)
    runs = instance.get_runs(RunsFilter(job_name=job), limit=1) if instance is not None else []
    if instance is None or not runs or runs[0].status != DagsterRunStatus.FAILURE:
        return None
    return runs[0].run_id if failed_with(instance, runs[0].run_id, PipelineBusyError) else None


def input_state(states: Mapping[str, Mapping[str, object]]) -> str:
    """A digest of all splits and what is known of each, by source: it changes when there is something to read.

    >>> input_state({"log": {"a.log": 1}}) == input_state({"log": {"a.log": 2}})
    False
    """
    lines = [f"{source} {split} {state}" for source, splits in states.items() for split, state in splits.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
