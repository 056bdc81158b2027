"""Self joins: each record goes through the branches of both sides, with one read of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.join_spec import spec_of
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.planner.diamond import through_branches
from rs_assets.compile.timed import timed
from rs_assets.operators.join.processed import processed_join
from rs_assets.operators.join.stream_join import LEFT, RIGHT
from rs_assets.operators.parts import rows_of_parts
from rs_assets.operators.window.event_time import event_time, marked
from rs_assets.records.columns import ADDRESS, EVENT_TIME, PREFIX, check_fields, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.join import RECORD_TIME, StreamJoin
from rs_assets.topology.rejoin import Rejoin

SIDES = (LEFT, RIGHT)
# The record on each side, null if its branch has dropped it, and its event time there.
ROWS = tuple(f"{PREFIX}row_{side}" for side in SIDES)
TIMES = tuple(f"{PREFIX}time_{side}" for side in SIDES)


def compile_self_join(
    context: CompileContext, node: StreamJoin, rejoin: Rejoin, flows: Mapping[str, Flow], known: Mapping[str, Node]
) -> Flow:
    """Join the branches of both sides, which part at one step."""
    frames = [flows[name].df for name in node.inputs]
    spec = spec_of(context, node, *frames)
    rows, made = through_branches(flows, rejoin.forks[0], known)
    packed = rows.select(*(_row(each, frame).alias(row) for each, frame, row in zip(made, frames, ROWS, strict=True)))
    there = packed.filter(" or ".join(f"{row} is not null" for row in ROWS))
    watched = timed(context, node, _with_times(context, node, there, frames), (), kept=node.water_marks[0])
    return Flow(processed_join(marked(_copies(watched), node.water_marks[0]), spec))


def _row(made: str, frame: DataFrame) -> Column:
    """The fields of a branch's record, in their order; null if it has dropped the record."""
    fields = F.struct(*(F.col(made).getField(name).alias(name) for name in visible(frame.columns)))
    return F.when(F.col(made).isNotNull(), fields)


def _with_times(context: CompileContext, node: StreamJoin, rows: DataFrame, frames: Sequence[DataFrame]) -> DataFrame:
    """`rows` with the time of each side and RECORD_TIME: the later one, null if a side that has the record lacks it."""
    assert node.time_fields is not None  # refused when it is built
    for frame, field in zip(frames, node.time_fields, strict=True):
        check_fields(frame, [field], step=node.name)
    told = {time: F.col(row).getField(field) for time, row, field in zip(TIMES, ROWS, node.time_fields, strict=True)}
    timed_rows = rows.withColumns(told)
    timed_rows = timed_rows.withColumns(
        {time: event_time(timed_rows, time, step=node.name, now=context.now()) for time in TIMES}
    )
    lacking = " or ".join(f"{row} is not null and {time} is null" for row, time in zip(ROWS, TIMES, strict=True))
    return timed_rows.withColumn(RECORD_TIME, F.when(~F.expr(lacking), F.greatest(*TIMES)))


def _copies(rows: DataFrame) -> DataFrame:
    """A row for each side that has the record: EVENT_TIME, and its fields in LEFT or RIGHT."""
    copies = []
    for own, time in zip(ROWS, TIMES, strict=True):
        sides = [
            (F.col(row) if row == own else F.lit(None).cast(rows.schema[row].dataType)).alias(side)
            for row, side in zip(ROWS, SIDES, strict=True)
        ]
        copies.append(F.when(F.col(own).isNotNull(), F.struct(F.col(time).alias(EVENT_TIME), *sides)))
    return rows_of_parts(rows, copies)


def replayed_self_join(context: CompileContext, node: StreamJoin, frames: Sequence[DataFrame]) -> DataFrame:
    """Each record of a batch once, after its event-time check: its read position, and EVENT_TIME."""
    assert node.time_fields is not None  # refused when it is built
    sides = []
    for frame, field in zip(frames, node.time_fields, strict=True):
        at = event_time(frame, field, step=node.name, now=context.now())
        sides.append(frame.select(*_address(frame), at.alias(RECORD_TIME)))
    both = reduce(DataFrame.unionByName, sides)
    latest = F.when(~F.bool_or(F.col(RECORD_TIME).isNull()), F.max(RECORD_TIME))
    records = both.groupBy(*_address(both)).agg(latest.alias(RECORD_TIME))
    return timed(context, node, records, (), kept=node.water_marks[0])


def _address(frame: DataFrame) -> list[str]:
    return [quoted(name) for name in ADDRESS if name in frame.columns]
