"""Windows: event time, control rows, watermark, aggregation."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.engine.source.columns import EVENT_TIME, REASON, hidden
from rs_assets.engine.source.policy import BadRecords
from rs_assets.engine.window.aggregate import (
    aggregate,
    at_clock,
    at_close,
    check_fields,
    check_numbers,
    duration_text,
    needed_fields,
)
from rs_assets.engine.window.event_time import drop_control, event_time, time_reason, with_control
from rs_assets.pipeline.compile.wiring import Flow, Wiring
from rs_assets.pipeline.topology.window import WindowAggregate

# The folder and the source name of a query's control rows.
CONTROL_SOURCE = "rs_control"


def compile_window(wiring: Wiring, node: WindowAggregate, inputs: tuple[Flow, ...]) -> Flow:
    """Aggregate into windows. A replay stops at the gate of event times: it looks for bad and late rows only."""
    timed = with_event_time(wiring, node, inputs[0].df)
    if not wiring.streaming:
        return Flow(timed)
    folder = wiring.folder / "control"
    marked = with_control(wiring.spark, timed, folder, name=CONTROL_SOURCE)
    watched = drop_control(marked.withWatermark(EVENT_TIME, duration_text(node.water_mark)))
    fire_time = at_clock(wiring.now()) if node.updates else at_close(node.water_mark)
    return Flow(
        aggregate(watched, node.window, group_by=node.group_by, aggregates=node.aggregates, fire_time=fire_time)
    )


def with_event_time(wiring: Wiring, node: WindowAggregate, df: DataFrame) -> DataFrame:
    """The fields that the window reads, and EVENT_TIME, of the rows whose event time is believed."""
    fields = needed_fields(node.group_by, node.aggregates)
    check_fields(df, fields, step=node.name)
    check_numbers(df, node.aggregates, step=node.name)
    at = event_time(df, node.window.time_field, step=node.name, now=wiring.now())
    kept = [F.col(f"`{name}`") for name in fields] + [F.col(name) for name in hidden(df.columns)]
    timed = df.select(*kept, at.alias(EVENT_TIME))
    judged = timed.withColumn(REASON, time_reason(F.col(EVENT_TIME), node.bounds, now=wiring.now()))
    policy = node.bounds.policy or wiring.policy
    # Under FAIL there is nothing to count here, and counting would part the parser from the aggregation.
    return wiring.gates.admit(judged, step=node.name, policy=policy, counted=policy is not BadRecords.FAIL)
