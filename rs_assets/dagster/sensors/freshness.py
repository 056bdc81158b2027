"""The freshness sensor: reports whether outputs are as fresh as the pipeline promises, by event time."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.dagster.assets.freshness import evaluations
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.verdicts import replaced_in_run
from rs_assets.dagster.place import instance_of, place_of
from rs_assets.dagster.sensors import cursor

# Seconds after which an unchanged result is reported again, because its lag has changed.
AGAIN_S = 600.0


def freshness_sensor(assets: StreamAssets) -> SensorDefinition | None:
    """Reports the checks of event time; None for a pipeline without `fresh_within`.

    A result of a stream that goes on is replaced in its name: Dagster shows one without a run as "not evaluated" once
    the stream has materialized the output again.
    """
    if assets.pipeline.fresh_within is None:
        return None
    topology = assets.topology

    @sensor(
        name=f"{assets.label}_freshness",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Reports whether the outputs of {assets.name} are fresh, by event time.",
    )
    def freshness(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen, now = cursor.load(context.cursor), time.time()
        found = evaluations(assets, place_of(context, topology))
        verdicts = {evaluation.asset_key.to_user_string(): evaluation.passed for evaluation in found}
        if verdicts == seen.get("verdicts") and now - seen["told"] < AGAIN_S:
            return SkipReason("as fresh as before")
        instance = instance_of(context)
        events = [each for each in found if instance is None or not replaced_in_run(instance, each)]
        return SensorResult(asset_events=events, cursor=cursor.dump({"verdicts": verdicts, "told": now}))

    return freshness
