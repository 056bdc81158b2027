"""Joins of two streams: event time, control rows and watermark of each side, then Spark's own join or a processor."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.join_spec import spec_of
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.planner.self_join import replayed_self_join
from rs_assets.compile.step import as_column
from rs_assets.compile.timed import timed
from rs_assets.operators.join.processed import THERE, both_sides, processed_join
from rs_assets.operators.join.spec import AsOf, Interval
from rs_assets.operators.join.stream_join import stream_join
from rs_assets.operators.window.assign import last_end
from rs_assets.records.columns import ADDRESS, EVENT_TIME, PREFIX, SOURCE, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.join import StreamJoin


def compile_join(context: CompileContext, node: StreamJoin, inputs: tuple[Flow, ...]) -> Flow:
    """Join the two inputs. A replay ends at the event-time checks of the sides without stateful steps upstream."""
    frames = [flow.df for flow in inputs]
    if not context.streaming:
        return Flow(replayed_self_join(context, node, frames) if node.shared else _replayed(context, node, frames))
    left, right = frames
    spec = spec_of(context, node, left, right)
    if node.deletes is not None:
        right = right.withColumn(THERE, ~F.coalesce(as_column(node.deletes), F.lit(False)))  # noqa: FBT003  a literal
    if node.bound is not None:
        left, right = (
            timed(context, node, frame, visible(frame.columns), kept=side.water_mark, side=side)
            for frame, side in zip((left, right), node.sides, strict=True)
        )
    if node.variable is not None:
        return Flow(processed_join(both_sides(left, right), spec))
    return Flow(stream_join(left, right, spec))


def _replayed(context: CompileContext, node: StreamJoin, frames: list[DataFrame]) -> DataFrame:
    """The rows of both sides after their event-time checks, each with its fields in a struct of its own."""
    sides = [side for side in node.sides if side.gate in context.controls]
    if node.bound is not None:
        frames = [
            timed(context, node, frame, visible(frame.columns), kept=side.water_mark, side=side)
            for frame, side in zip(frames, sides, strict=True)
        ]
    packed = [_packed(frame, number) for number, frame in enumerate(frames)]
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), packed)


def joined_of(context: CompileContext, node: StreamJoin, rows: DataFrame) -> DataFrame:
    """The pairs of rows of a replay, which may be those of several batches: as an inner join of Spark emits them."""
    left, right = (_unpacked(rows, number) for number in range(2))
    return stream_join(left, right, spec_of(context, node, left, right))


def _unpacked(rows: DataFrame, number: int) -> DataFrame:
    """The fields of the rows of one side, and their event time."""
    side = f"{PREFIX}side_{number}"
    return rows.filter(F.col(side).isNotNull()).select(f"{side}.*", EVENT_TIME)


def _packed(frame: DataFrame, number: int) -> DataFrame:
    """The places of the rows, their event time, and their fields: field names of the sides may overlap."""
    kept = [F.col(name) for name in hidden(frame.columns) if name in {SOURCE, *ADDRESS, EVENT_TIME}]
    fields = F.struct(*(F.col(quoted(name)) for name in visible(frame.columns)))
    return frame.select(*kept, fields.alias(f"{PREFIX}side_{number}"))


def late_for_join(node: StreamJoin, watermark: Column) -> Column:
    """Whether the watermark had passed the row, or the last of its windows."""
    if node.bound is None:
        return F.lit(False)  # noqa: FBT003  a literal
    if isinstance(node.bound, Interval | AsOf):
        return F.col(EVENT_TIME) <= watermark
    return last_end(node.bound) <= watermark


def probe_join(_node: StreamJoin, rows: DataFrame) -> DataFrame:
    """The rows: a condition is computed of pairs, so single records cannot fail on it."""
    return rows
