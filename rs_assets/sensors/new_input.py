"""Sensors: new input asks for a run."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import hashlib
from collections.abc import Mapping

from dagster import RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from pipelines.stream.pipeline import Pipeline
from resources.errors import SourceReadError
from rs_assets.assets import pipeline_name
from rs_assets.sensors.inputs import Ends, ends_of, watched


def new_input_sensor(pipeline: Pipeline) -> SensorDefinition | None:
    """Asks for a run when files or topics of an unbounded pipeline have grown or become more; None without such."""
    topology = pipeline.topology
    sources = watched(topology)
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
        try:
            seen = input_state(ends_of(sources))
        except SourceReadError as error:
            return SkipReason(str(error))
        if seen == context.cursor:
            return SkipReason("no new input")
        return SensorResult(run_requests=[RunRequest(run_key=seen)], cursor=seen)

    return new_input


def input_state(ends: Mapping[str, Ends]) -> str:
    """A digest of all splits and their ends, by source: it changes when there is something to read.

    >>> input_state({"log": {"a.log": 1}}) == input_state({"log": {"a.log": 2}})
    False
    """
    lines = [f"{source} {split} {end}" for source, splits in ends.items() for split, end in splits.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
