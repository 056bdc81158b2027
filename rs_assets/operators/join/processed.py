"""Joins by our processors, for those that Spark's operators do not support."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from rs_assets.operators.join.spec import AsOf, Interval
from rs_assets.operators.join.stream_join import GUARD, LEFT, RIGHT, JoinSpec, joined_fields, placed, side_of
from rs_assets.operators.state.reader import PART
from rs_assets.operators.window.assign import WINDOW, assigned
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.records.columns import EVENT_TIME, PREFIX, RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

# A processor that waits for the end of input recognises it a day before the time that represents it.
END = END_OF_TIME - timedelta(days=1)
# The column with the row of a table.
ROW = "row"
# Of the right side of an as-of join: whether a row is there; else it ends the one before it.
THERE = f"{PREFIX}there"
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MICROSECOND, MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)


def both_sides(left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows of two frames with EVENT_TIME, each in the struct LEFT or RIGHT."""
    kinds = {side: _row(frame) for side, frame in ((LEFT, left), (RIGHT, right))}

    def packed(frame: DataFrame, own: str) -> DataFrame:
        nothing = F.lit(None)
        structs = [
            (kind if side == own else nothing.cast(frames[side].select(kind).schema[0].dataType)).alias(side)
            for side, kind in kinds.items()
        ]
        return frame.select(F.col(EVENT_TIME), *structs)

    frames = {LEFT: left, RIGHT: right}
    return packed(left, LEFT).unionByName(packed(right, RIGHT))


def _row(frame: DataFrame) -> Column:
    # First, since of rows of one time the greatest by its fields is used.
    there = [F.col(THERE)] if THERE in frame.columns else []
    return F.struct(*there, *(F.col(quoted(name)) for name in visible(frame.columns)))


def processed_join(united: DataFrame, spec: JoinSpec) -> DataFrame:
    """The rows of a join of both sides in `united`, which carries EVENT_TIME and its watermark.

    With `early` they have the column `retracted`: whether a row retracts an unmatched one. TopologyError for a
    condition that only Spark's own operators can compute.
    """
    left, right = (_struct(united, side) for side in (LEFT, RIGHT))
    for kind in (left, right):
        check_types(kind)
    keyed = _keyed(united, spec)
    theirs = [name for name in right.names if name != THERE]
    rows = DataFrame(_done(keyed, spec, left.names, theirs, ends=THERE in right.names), united.sparkSession)
    there = rows.withColumns({side: F.col(side).withField(GUARD, F.lit(0)) for side in (LEFT, RIGHT)})
    place = placed(F.col(WINDOW), spec) if WINDOW in keyed.columns else []
    retracted = [F.col(RETRACTED).alias("retracted")] if spec.early else []
    return there.select(*joined_fields(left.names, theirs, spec), *place, *retracted)


def _struct(united: DataFrame, side: str) -> StructType:
    kind = united.schema[side].dataType
    assert isinstance(kind, StructType)  # made so
    return kind


def _done(keyed: DataFrame, spec: JoinSpec, ours: Sequence[str], theirs: Sequence[str], *, ends: bool) -> Any:
    """The processor's output; `ends`: right rows begin with THERE."""
    processors, frame = processors_of(keyed), keyed._jdf  # noqa: SLF001  there is no public way
    if isinstance(spec.bound, AsOf):
        tolerance = spec.bound.tolerance
        end = int((END - spec.longest_delay).timestamp() * 1000)
        reach = -1 if tolerance is None else tolerance // MICROSECOND
        return processors.AsOfRows.apply(frame, spec.how == "inner", reach, end, ends)
    interval = spec.bound if isinstance(spec.bound, Interval) else None
    meeting = processors.Meeting(
        spec.how not in {"semi", "anti"},
        spec.how == "semi",
        spec.how in {"left", "full", "anti"},
        spec.how in {"right", "full"},
        interval.before // MICROSECOND if interval else 0,
        interval.after // MICROSECOND if interval else 0,
        interval is None,
        spec.early,
    )
    return processors.MeetingRows.apply(frame, meeting, _condition(keyed, spec, ours, theirs))


def _condition(keyed: DataFrame, spec: JoinSpec, ours: Sequence[str], theirs: Sequence[str]) -> Any:
    """The condition as the only column of a frame over both rows and the fields that only one of them has; or None."""
    if spec.condition is None:
        return None
    folded = {LEFT: {name.casefold() for name in ours}, RIGHT: {name.casefold() for name in theirs}}
    alone = [
        side_of(side, name).alias(name)
        for side, names, other in ((LEFT, ours, RIGHT), (RIGHT, theirs, LEFT))
        for name in names
        if name.casefold() not in {*folded[other], LEFT, RIGHT}
    ]
    return keyed.select(LEFT, RIGHT, *alone).select(spec.condition.alias("holds"))._jdf  # noqa: SLF001  as above


def _keyed(united: DataFrame, spec: JoinSpec) -> DataFrame:
    """The time of each row, the rows themselves, guard, keys and window."""
    ours = F.col(LEFT).isNotNull()
    names = key_names([left for left, _ in spec.on])
    keys = [
        F.when(ours, side_of(LEFT, left)).otherwise(side_of(RIGHT, right)).alias(name)
        for name, (left, right) in zip(names, spec.on, strict=True)
    ]
    rows = united.select(*keys, EVENT_TIME, LEFT, RIGHT)
    missing = F.lit(False)  # noqa: FBT003  a literal
    for name in names:
        key, kind = F.col(quoted(name)), rows.schema[name].dataType
        missing |= key.isNull() | (key == F.lit("")) if isinstance(kind, StringType) else key.isNull()
    fields = [F.col(quoted(name)) for name in names]
    guard = F.when(missing, F.when(ours, 1).otherwise(2)).otherwise(0).alias("guard")
    if isinstance(spec.bound, Interval | AsOf):
        return rows.select(EVENT_TIME, LEFT, RIGHT, guard, *fields)
    assert spec.bound is not None  # refused when it is built
    # Only the window has the event-time metadata: rows are late when it is over.
    plain = F.timestamp_micros(F.unix_micros(EVENT_TIME)).alias(EVENT_TIME)
    return rows.select(plain, LEFT, RIGHT, guard, *fields, assigned(spec.bound, spec.lag).alias(WINDOW))


def key_names(fields: Sequence[str]) -> list[str]:
    """Names of keys in state: those of the left side, if Spark can write them there."""
    taken = {"guard", LEFT, RIGHT, ROW, WINDOW.casefold(), PART}
    names = []
    for place, field in enumerate(fields):
        folded = field.casefold()
        name = field if PLAIN.fullmatch(field) and folded not in taken else f"_key_{place}"
        taken.add(name.casefold())
        names.append(name)
    return names
