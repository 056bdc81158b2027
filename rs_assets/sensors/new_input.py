"""Sensors: new input asks for a run."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import hashlib

from dagster import RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from pipelines.stream.pipeline import Pipeline
from pipelines.topology.source import FileSource
from resources.source.native import existing_files
from rs_assets.assets import pipeline_name


def new_input_sensor(pipeline: Pipeline) -> SensorDefinition | None:
    """Asks for a run when the files of an unbounded pipeline have grown or become more; None without file sources."""
    topology = pipeline.topology
    sources = [s for s in topology.sources if isinstance(s, FileSource) and not s.bounded]
    if not sources:
        return None
    name = pipeline_name(topology)

    @sensor(
        name=f"{name}_new_input",
        job_name=f"{name}_run",
        minimum_interval_seconds=30,
        description=f"Runs {pipeline.name} when its input has grown.",
    )
    def new_input(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen = input_state(sources)
        if seen == context.cursor:
            return SkipReason("no new input")
        return SensorResult(run_requests=[RunRequest(run_key=seen)], cursor=seen)

    return new_input


def input_state(sources: list[FileSource]) -> str:
    """A digest of the names and sizes of all input files: it changes when there is something to read."""
    lines = [f"{s.name} {file} {file.stat().st_size}" for s in sources for file in existing_files(s.path)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
