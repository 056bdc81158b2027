"""Jobs that look after a pipeline's checkpoints: verify, savepoint, restore, rewind, rescale; launched from the UI."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from dagster import (
    AssetKey,
    AssetObservation,
    Failure,
    Field,
    JobDefinition,
    Noneable,
    OpExecutionContext,
    String,
    in_process_executor,
    job,
    op,
)

from rs_assets.engine.checkpoint import requests
from rs_assets.engine.checkpoint.lease import LeaseRow, read_lease
from rs_assets.engine.spark.resource import SparkResource
from rs_assets.errors import PipelineBusyError
from rs_assets.orchestration.assets import pipeline_name
from rs_assets.orchestration.place import place_of
from rs_assets.orchestration.roles import asset_path, roles_of
from rs_assets.pipeline.runtime import preflight, travel
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.pipeline.runtime.rescale import rescale
from rs_assets.pipeline.stream.pipeline import Pipeline
from rs_assets.pipeline.topology.topology import Topology

# How long a running stream gets to drain and end when it is asked to, in seconds.
STOP_S = 120.0
LOOK_S = 0.2
Config = Mapping[str, Any]
Action = Callable[[OpExecutionContext, Topology, RunOptions], Config]


def _verify(context: OpExecutionContext, topology: Topology, options: RunOptions) -> Config:
    found = [(query.query, f) for query in preflight.verify(topology, options) for f in query.found]
    for query, finding in found:
        context.log.warning("%s: %s %s: %s (%s)", query, finding.code, finding.file, finding.meaning, finding.remedy)
    errors = [finding for _, finding in found if finding.severity == "error"]
    if errors:
        raise Failure(f"{len(errors)} findings would stop the next start", allow_retries=False)
    return {"findings": len(found)}


def _savepoint(context: OpExecutionContext, topology: Topology, options: RunOptions) -> Config:
    taken = travel.savepoint(topology, options, note=context.op_config["note"])
    return {"savepoint": taken.id, "bytes": taken.bytes_total, "bytes_copied": taken.bytes_new}


def _restore(context: OpExecutionContext, topology: Topology, options: RunOptions) -> Config:
    with _stopped(context, topology, options, "a restore"):
        chosen = travel.restore(topology, options, savepoint_id=context.op_config["savepoint"])
    return {"savepoint": chosen.id, **{f"batch_{query}": batch for query, batch in chosen.batches.items()}}


def _rewind(context: OpExecutionContext, topology: Topology, options: RunOptions) -> Config:
    with _stopped(context, topology, options, "a rewind"):
        done = travel.rewind(topology, context.op_config["to_batch"], options, step=context.op_config["step"])
    return {"done": done}


def _rescale(context: OpExecutionContext, topology: Topology, options: RunOptions) -> Config:
    with _stopped(context, topology, options, "a rescale"):
        report = rescale(topology, context.op_config["partitions"], options)
    rows = sum(report.state_rows.values())
    return {
        "partitions_before": report.before,
        "partitions": report.after,
        "state_rows": rows,
        "seconds": report.seconds,
    }


STEP = Field(Noneable(String), default_value=None, description="The stateful step, if there are several queries")
# What a job does, and what people set for it in the Launchpad.
ACTIONS: Mapping[str, tuple[Action, dict[str, Any], str]] = MappingProxyType(
    {
        "verify": (_verify, {}, "Looks at the checkpoints as every start does; fails if one would be refused."),
        "savepoint": (
            _savepoint,
            {"note": Field(String, default_value="", description="What it is for")},
            "Copies the checkpoints, running or stopped, to the savepoint store.",
        ),
        "restore": (
            _restore,
            {"savepoint": Field(Noneable(String), default_value=None, description="Its id; none: the newest")},
            "Brings the pipeline and its sinks back to a savepoint; a running stream is stopped and started again.",
        ),
        "rewind": (
            _rewind,
            {"to_batch": Field(int, description="The last batch that stays"), "step": STEP},
            "Brings the pipeline and its sinks back to the end of a batch.",
        ),
        "rescale": (
            _rescale,
            {"partitions": Field(int, description="The number of state partitions")},
            "Drains, rewrites the state in another number of partitions, and starts again what was running.",
        ),
    }
)


def upkeep_jobs(pipeline: Pipeline) -> list[JobDefinition]:
    """One job an action, named `<namespace>_<job>_<action>`."""
    return [_upkeep_job(pipeline, name) for name in ACTIONS]


def _upkeep_job(pipeline: Pipeline, name: str) -> JobDefinition:
    topology = pipeline.topology
    action, config, description = ACTIONS[name]

    # Ops of one code location must differ in their names; in its own job each goes by the short one.
    @op(name=f"{pipeline_name(topology)}__{name}", config_schema=config, description=description)
    def act(context: OpExecutionContext, spark: SparkResource) -> None:
        options = place_of(context, topology).options(driver=spark.driver, run_id=context.run_id)
        metadata = dict(action(context, topology, options))
        context.log.info("%s of %s: %s", name, pipeline.name, metadata)
        for step, role in roles_of(topology):
            if role in ("checkpoint", "state"):
                key = AssetKey(asset_path(topology, step, role))
                context.log_event(AssetObservation(key, description=name, metadata=metadata))

    @job(
        name=f"{pipeline_name(topology)}_{name}",
        description=f"{pipeline.name}: {description}",
        tags={"rs/pipeline": pipeline.name, "rs/upkeep": name, "dagster/max_retries": "0"},
        executor_def=in_process_executor,
    )
    def upkeep() -> None:
        act.alias(name)()

    return upkeep


@contextmanager
def _stopped(context: OpExecutionContext, topology: Topology, options: RunOptions, why: str) -> Iterator[None]:
    """Wait until no run holds the pipeline; a stream is asked to stop, and to be started again afterwards.

    PipelineBusyError if the run does not end in time. A stream that still drains then is started again all the same.
    """
    folder = options.home.job(topology.namespace, topology.job)
    lease = read_lease(options.home.leases, topology.name)
    mode = _mode_of(context, lease) if lease is not None and not lease.free else None
    try:
        if mode is not None:
            context.log.info("waiting for the run that holds %s to stop", topology.name)
        if mode in ("start", "unknown"):
            requests.ask(folder, "stop", reason=why)
        if mode is not None:
            _wait_until_free(topology, options)
        yield
    finally:
        if mode in ("start", "unknown"):
            requests.clear(folder, "stop")
        if mode == "start":
            requests.ask(folder, "resume", reason=why)
        elif mode == "unknown":
            context.log.warning("%s was not started by Dagster: start it again yourself", topology.name)


def _mode_of(context: OpExecutionContext, lease: LeaseRow) -> str:
    """How the run that holds the lease goes: run, start, or unknown if Dagster has not launched it."""
    run = context.instance.get_run_by_id(lease.run_id)
    return run.tags.get("rs/mode", "run") if run is not None else "unknown"


def _wait_until_free(topology: Topology, options: RunOptions) -> None:
    pause, deadline = threading.Event(), time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        lease = read_lease(options.home.leases, topology.name)
        if lease is None or lease.free:
            return
        pause.wait(LOOK_S)
    raise PipelineBusyError(
        f"{topology.name} did not stop within {STOP_S:.0f} s", remedy="terminate its run, then launch this again"
    )
