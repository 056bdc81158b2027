"""Joins of two streams: event time, control rows and watermark of each side, then Spark's own join."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.engine.join.spec import Interval
from rs_assets.engine.join.stream_join import JoinSpec, check_join, stream_join
from rs_assets.engine.source.columns import ADDRESS, EVENT_TIME, PREFIX, hidden, visible
from rs_assets.engine.window.aggregate import check_fields, last_end
from rs_assets.pipeline.compile.step import as_column
from rs_assets.pipeline.compile.timed import timed
from rs_assets.pipeline.compile.wiring import Flow, Wiring
from rs_assets.pipeline.topology.chain import link_of
from rs_assets.pipeline.topology.join import StreamJoin


def compile_join(wiring: Wiring, node: StreamJoin, inputs: tuple[Flow, ...]) -> Flow:
    """Join the two inputs. A replay stops at the gates of event times, of the sides that have passed no other state."""
    frames = [flow.df for flow in inputs]
    if not wiring.streaming:
        return Flow(_replayed(wiring, node, frames))
    left, right = frames
    for frame, keys in zip(frames, zip(*node.on, strict=True), strict=True):
        check_fields(frame, keys, step=node.name)
    spec = JoinSpec(
        on=node.on,
        how=node.how,
        bound=node.bound,
        prefix=node.prefix,
        times=node.time_fields,
        condition=as_column(node.condition) if node.condition is not None else None,
        lag=link_of(wiring.links, node).lag,
    )
    check_join(left, right, spec, step=node.name)
    if node.bound is not None:
        left, right = (
            timed(wiring, node, frame, visible(frame.columns), kept=side.water_mark, side=side)
            for frame, side in zip(frames, node.sides, strict=True)
        )
    return Flow(stream_join(left, right, spec))


def _replayed(wiring: Wiring, node: StreamJoin, frames: list[DataFrame]) -> DataFrame:
    """The rows of both sides behind the gates of their event times: each with its fields in a struct of its own."""
    sides = [side for side in node.sides if side.gate in wiring.controls]
    if node.bound is not None:
        frames = [
            timed(wiring, node, frame, visible(frame.columns), kept=side.water_mark, side=side)
            for frame, side in zip(frames, sides, strict=True)
        ]
    packed = [_packed(frame, number) for number, frame in enumerate(frames)]
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), packed)


def _packed(frame: DataFrame, number: int) -> DataFrame:
    """Where the rows were read, their event time, and their fields: the sides may have some of one name."""
    kept = [F.col(name) for name in hidden(frame.columns) if name in {*ADDRESS, EVENT_TIME}]
    fields = F.struct(*(F.col(f"`{name}`") for name in visible(frame.columns)))
    return frame.select(*kept, fields.alias(f"{PREFIX}side_{number}"))


def late_for_join(node: StreamJoin, watermark: Column) -> Column:
    """Whether the watermark had passed the row, or the last of its windows."""
    if node.bound is None:
        return F.lit(False)  # noqa: FBT003  a literal
    if isinstance(node.bound, Interval):
        return F.col(EVENT_TIME) <= watermark
    return last_end(node.bound) <= watermark


def probe_join(node: StreamJoin, rows: DataFrame) -> DataFrame:  # noqa: ARG001  the table's form
    """The rows: a condition is computed of pairs, which no single record makes."""
    return rows
