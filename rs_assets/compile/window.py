"""Windows: event time, control rows, watermark, aggregation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.python.accumulate import begin, merged_columns, read_by
from rs_assets.compile.python.udaf import fields_of_own
from rs_assets.compile.step import as_column
from rs_assets.compile.timed import timed
from rs_assets.operators.window.aggregate import (
    aggregate,
    aggregate_column,
    at_close,
    check_numbers,
    check_ordered,
    collected_rows,
    needed_fields,
    rows_of,
)
from rs_assets.operators.window.assign import last_end
from rs_assets.operators.window.output import ROWS
from rs_assets.operators.window.trigger_operator import FiredWindows
from rs_assets.records.columns import EVENT_TIME, check_fields, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.chain import link_of
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.nodes.window import WindowAggregate


def compile_window(context: CompileContext, node: WindowAggregate, inputs: tuple[Flow, ...]) -> Flow:
    """Aggregate into windows. A replay ends at the event-time check: it looks for bad and late rows only."""
    df = inputs[0].df
    ranked = node.ranking.shown if node.ranking else ()
    kept = _rows(node, df) or ()
    fields = needed_fields(node.group_by, node.aggregates, [*fields_of_own(df, node), *ranked, *kept, *node.kept])
    df = _with_accumulators(context, node, df, fields) if node.accumulated else df
    rows = timed(context, node, df, fields, kept=node.delay, late=partial(late_by_record, node))
    check_numbers(rows, node.aggregates, step=node.name)
    check_ordered(rows, [*ranked, *kept, *node.kept], step=node.name)
    if not context.streaming:
        return Flow(rows)
    link = link_of(context.links, node)
    fire_time = (lambda _end: context.now()) if node.often else at_close(link.lag + link.water_mark)
    return Flow(_parted(node, _windows(node, rows, fire_time, link.lag, _fired(node)), kept))


def windows_of(context: CompileContext, node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The closed windows over `rows` of a replay, which may be those of several batches: as a stream emits them once.

    If the rows have PASSED, those of windows that had closed by then are left out.
    """
    link, kept = link_of(context.links, node), _rows(node, rows) or ()
    return _parted(node, _windows(node, rows, at_close(link.lag + link.water_mark), link.lag), kept)


def _with_accumulators(
    context: CompileContext, node: WindowAggregate, df: DataFrame, fields: Sequence[str]
) -> DataFrame:
    """`df` with the accumulators of its rows; without fields that nothing reads, unless a sink gets late rows."""
    time = [] if node.event_time is None else [node.event_time]
    read = dict.fromkeys([*fields, *time, *read_by(node.accumulated, df)])
    check_fields(df, list(read), step=node.name)
    sent = visible(df.columns) if node.name in context.late else list(read)
    return begin(context, node.accumulated, df, sent)


def _windows(
    node: WindowAggregate,
    rows: DataFrame,
    fire_time: Callable[[Column], Column],
    lag: timedelta = NONE,
    fired: FiredWindows | None = None,
) -> DataFrame:
    return aggregate(
        rows,
        node.window,
        group_by=node.group_by,
        columns=_columns(node, rows),
        ranking=node.ranking,
        fire_time=fire_time,
        lag=lag,
        fired=fired,
    )


def _columns(node: WindowAggregate, df: DataFrame) -> Mapping[str, Column]:
    """The aggregates by name, user-defined ones, rows and accumulators last, as a preview of the state expects them."""
    made = {a.alias: aggregate_column(a) for a in node.aggregates} | {name: as_column(e) for name, e in node.own}
    kept = _rows(node, df)
    made |= {} if kept is None else {ROWS: collected_rows(kept)}
    return {**made, **merged_columns(df.sparkSession, node.accumulated)}


def _rows(node: WindowAggregate, df: DataFrame) -> Sequence[str] | None:
    """The fields of the rows that are kept for functions in Python; None for no rows."""
    if node.rows is None:
        return None
    return node.rows.fields or visible(df.columns)


def _parted(node: WindowAggregate, windows: DataFrame, kept: Sequence[str]) -> DataFrame:
    """`windows` with the rows that each function gets, in a column of its own."""
    if node.rows is None:
        return windows
    made = [rows_of(F.col(quoted(ROWS)), of or kept).alias(name) for name, of in node.rows.columns.items()]
    parts = [made if name == ROWS else [F.col(quoted(name))] for name in windows.columns]
    return windows.select(*(column for part in parts for column in part))


def _fired(node: WindowAggregate) -> FiredWindows | None:
    """The processor that fires the windows instead of Spark's own operator; None if the operator does."""
    if not node.fired:
        return None
    return FiredWindows(
        window=node.window,
        firing=node.firing,
        emit=node.emit,
        water_mark=node.water_mark,
        ranked=node.ranking is not None,
    )


def late_for_window(node: WindowAggregate, watermark: Column) -> Column:
    """Whether all windows of a row had closed."""
    return last_end(node.window) <= watermark


def late_by_record(node: WindowAggregate, watermark: Column) -> Column:
    """The same where lateness is decided by record.

    Sessions must be the same whether they were emitted before a row came or not: it may not merge with a closed one.
    """
    if node.window.merges:
        return F.col(EVENT_TIME) <= watermark
    return late_for_window(node, watermark)


def probe_window(node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The windows over `rows`, because an error in the argument of an aggregate shows only there."""
    return _windows(node, rows, at_close(node.water_mark))
