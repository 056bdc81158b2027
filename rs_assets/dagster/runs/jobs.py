"""The two jobs of a pipeline: `run` to the end of the input, and `start` until stopped."""

from __future__ import annotations

from typing import Any, Literal

from dagster import AssetsDefinition, AssetSelection, define_asset_job, in_process_executor
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.resources.resource_keys import RUN

Mode = Literal["run", "start"]
DESCRIPTIONS: dict[Mode, str] = {
    "run": "Process all input there is, then stop.",
    "start": "Process input as it comes. Terminate drains and stops it; the run then ends as a success.",
}


def pipeline_job(assets: StreamAssets, graph: AssetsDefinition, mode: Mode) -> UnresolvedAssetJobDefinition:
    """The job that runs a pipeline in `mode`, in one process: frames cannot travel, and one JVM is enough."""
    config: dict[str, Any] = {"resources": {RUN: {"config": {"mode": mode}}}}
    # A stream has no time limit, and no retry that would start it again after a stop. Where a launch asks for retries,
    # they need the frames of all steps.
    retries = {"dagster/max_retries": "0", "dagster/retry_strategy": "ALL_STEPS"}
    tags = {"rs/pipeline": assets.name, "rs/mode": mode, "dagster/max_runtime": "0", **retries}
    return define_asset_job(
        name=f"{assets.label}_{mode}",
        # Their checks would be "in progress" as long as a stream runs: the run reports their results (verdicts.py).
        selection=AssetSelection.assets(*graph.keys).without_checks(),
        config=config,
        description=f"{assets.name}: {DESCRIPTIONS[mode]}",
        tags=tags,
        executor_def=in_process_executor,
    )
