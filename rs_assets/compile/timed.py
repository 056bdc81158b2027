"""Event time of stateful steps: checked and watched where it enters a query, passed from step to step inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.late_rows import check_late
from rs_assets.compile.planner.context import CompileContext
from rs_assets.operators.window.assign import duration_text, earlier, later
from rs_assets.operators.window.by_record import with_marks
from rs_assets.operators.window.event_time import (
    control_folder,
    drop_control,
    event_time,
    marked,
    time_reason,
    watermark_id,
    with_control,
)
from rs_assets.operators.window.observed import observed_splits
from rs_assets.records.columns import (
    EVENT_TIME,
    LATE,
    MARK,
    ORIGIN,
    PASSED,
    PLACE,
    REASON,
    check_fields,
    hidden,
    visible,
)
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.timed import NONE, Side, TimedState


def timed(
    context: CompileContext,
    node: TimedState,
    df: DataFrame,
    fields: Sequence[str],
    *,
    kept: timedelta,
    side: Side | None = None,
    late: Callable[[Column], Column] | None = None,
) -> DataFrame:
    """`fields` and hidden columns of `df`, the input `side` of `node`, and EVENT_TIME under the query's watermark.

    Spark keeps rows of deduplication state for `kept` after their event time. A replay has no watermark: it looks for
    rows with a bad event time and for late ones, which keep all fields if a sink gets them.

    Where lateness is decided by record, `late` is a condition on a row and a watermark: late rows are counted and left
    out, the others have PASSED, the watermark of their split before them (null before its second record).
    """
    check_fields(df, fields, step=node.name)
    side = side or node.sides[0]
    if node.name in context.late:
        check_late(df, step=node.name)
        fields = fields if context.streaming else visible(df.columns)
    link = context.links.get(node.name)
    lag = link.lag if link is not None else NONE
    if link is not None and side.gate not in context.controls:
        # Rows of a chained step: their times need no check, and wait for the lag.
        return marked(_with_time(context, node, side, df, fields, lag=lag), kept)
    judged = _judged(context, node, side, df, fields)
    if late is not None and node.by_split is not None and node.by_split.by_record:
        judged = _judged_by_record(context, node, judged, late)
    if not context.streaming:
        return judged
    name = context.controls[side.gate]
    controlled = with_control(context.spark, judged, control_folder(context.control_root, name), name=name)
    if node.by_split is not None:
        controlled = observed_splits(controlled, gate=side.gate)
    by_watermark = controlled.withWatermark(EVENT_TIME, duration_text(side.water_mark))
    context.watermarks[side.gate] = watermark_id(by_watermark)
    watched = drop_control(by_watermark).drop(ORIGIN)
    if LATE in watched.columns:
        # Control rows, over which Spark may pull the filter, have none.
        watched = watched.filter(~F.coalesce(F.col(LATE), F.lit(False))).drop(LATE)  # noqa: FBT003
    if lag:
        watched = watched.withColumn(EVENT_TIME, later(F.col(EVENT_TIME), lag))
    return marked(watched, kept) if lag or kept != side.water_mark else watched


def _judged(context: CompileContext, node: TimedState, side: Side, df: DataFrame, fields: Sequence[str]) -> DataFrame:
    """The rows with an accepted event time."""
    rows = _with_time(context, node, side, df, fields, lag=NONE)
    judged = rows.withColumn(REASON, time_reason(F.col(EVENT_TIME), node.believed, now=context.now()))
    policy = node.bounds.policy or context.policy
    # Under FAIL there is nothing to count here, and counting would separate the parser from the aggregation.
    return context.record_filter.filter_bad_records(
        judged, step=side.gate, policy=policy, counted=policy is not BadRecords.FAIL
    )


def _judged_by_record(
    context: CompileContext, node: TimedState, rows: DataFrame, late: Callable[[Column], Column]
) -> DataFrame:
    """`rows` with PASSED, and LATE by that."""
    noted = None if context.streaming else context.latest
    passed = with_marks(rows, noted).withColumn(PASSED, earlier(F.col(MARK), node.delay)).drop(MARK, PLACE)
    return passed.withColumn(LATE, F.coalesce(late(F.col(PASSED)), F.lit(False)))  # noqa: FBT003


def _with_time(
    context: CompileContext, node: TimedState, side: Side, df: DataFrame, fields: Sequence[str], *, lag: timedelta
) -> DataFrame:
    """`fields` and hidden columns of `df`, and as EVENT_TIME a time `lag` after its own."""
    at = event_time(df, side.time_field, step=node.name, now=context.now())
    columns = [F.col(quoted(name)) for name in fields] + [F.col(name) for name in hidden(df.columns)]
    return df.select(*columns, later(at, lag).alias(EVENT_TIME))
