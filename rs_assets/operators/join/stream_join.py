"""Spark's stream-stream join, with corrected equality of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType

from rs_assets.operators.join.spec import OF_BOTH, AnyBound, AsOf, Interval, JoinType, two_fields, unlike_keys
from rs_assets.operators.state.barrier import fully_computed
from rs_assets.operators.window.assign import WINDOW, assigned, earlier
from rs_assets.records.columns import EVENT_TIME, PREFIX, visible
from rs_assets.records.schema import quoted
from rs_assets.records.types import compared_by_rounding

LEFT, RIGHT = "left", "right"
# 0 where a row has all keys, else 1 on the left and 2 on the right side: Spark's full outer join treats nulls as equal.
# After the join it shows whether there is a row of the right side.
GUARD = f"{PREFIX}guard"
# The event time without Spark's metadata: for comparisons that must not affect state.
PLAIN_TIME = f"{PREFIX}plain_time"
RENAMED = "rename it before, or join rows of windows by their times: within=Time.seconds(0), time_field='start_time'"
# Spark's names of the stores with the rows of each side.
STORES: Final[Mapping[str, str]] = {side: f"{side}-keyWithIndexToValue" for side in (LEFT, RIGHT)}
SPARKS: Final[Mapping[JoinType, str]] = {
    "inner": "inner",
    "left": "leftOuter",
    "right": "rightOuter",
    "full": "fullOuter",
    "semi": "leftSemi",
    # Spark has no anti join of streams: matched rows are dropped after a left join.
    "anti": "leftOuter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """Pairs of keys, kind, bound, fields with the times, condition, and how far EVENT_TIME lags those times.

    Only processors use `early`, whether unmatched rows are emitted at once, and the `longest_delay` of a watermark.
    """

    on: Sequence[tuple[str, str]]
    how: JoinType
    bound: AnyBound
    times: tuple[str, str] | None = None
    prefix: str | None = None
    condition: Column | None = None
    lag: timedelta = timedelta(0)
    early: bool = False
    longest_delay: timedelta = timedelta(0)


def stream_join(left: DataFrame, right: DataFrame, spec: JoinSpec) -> DataFrame:
    """The rows of the join of two frames, which carry EVENT_TIME and its watermark if the join is bound in time."""
    one = _side(left, [name for name, _ in spec.on], spec, absent=1).alias(LEFT)
    two = _side(right, [name for _, name in spec.on], spec, absent=2).alias(RIGHT)
    joined = one.join(two, _condition(spec), SPARKS[spec.how])
    if spec.how == "anti":
        joined = joined.filter(side_of(RIGHT, GUARD).isNull())
    fields = joined_fields(visible(left.columns), visible(right.columns), spec)
    return fully_computed(joined.select(*fields, *_place(spec)))


def _side(frame: DataFrame, keys: Sequence[str], spec: JoinSpec, *, absent: int) -> DataFrame:
    """The fields of one side, its guard, and the columns that place it in time."""
    columns = [F.col(quoted(name)) for name in visible(frame.columns)]
    missing = [_missing(frame, name) for name in keys]
    guard = F.when(reduce(or_, missing), F.lit(absent)).otherwise(F.lit(0)).alias(GUARD)
    if spec.bound is None:
        return frame.select(*columns, guard)
    if not isinstance(spec.bound, Interval):
        assert not isinstance(spec.bound, AsOf)  # a processor's
        return frame.select(*columns, guard, assigned(spec.bound, spec.lag).alias(WINDOW))
    plain = F.timestamp_micros(F.unix_micros(EVENT_TIME)).alias(PLAIN_TIME)
    return frame.select(*columns, guard, F.col(EVENT_TIME), plain)


def _missing(frame: DataFrame, name: str) -> Column:
    """Whether a key has no value: null, or an empty text."""
    key = F.col(quoted(name))
    empty = isinstance(frame.schema[name].dataType, StringType)
    return key.isNull() | (key == F.lit("")) if empty else key.isNull()


def _condition(spec: JoinSpec) -> Column:
    equal = [side_of(LEFT, GUARD) == side_of(RIGHT, GUARD)]
    equal += [side_of(LEFT, one) == side_of(RIGHT, two) for one, two in spec.on]
    parts = [*equal, *_near(spec.bound), *([_of_pairs(spec)] if spec.condition is not None else [])]
    return reduce(and_, parts)


def _of_pairs(spec: JoinSpec) -> Column:
    """The condition, in a form that Spark applies to pairs in joins that emit unmatched rows.

    If it used one side alone, Spark would lose unmatched rows of that side that fulfil it.
    """
    assert spec.condition is not None  # asked for before
    if spec.how in {"inner", "semi"}:
        return spec.condition
    return F.when(side_of(LEFT, GUARD) == side_of(RIGHT, GUARD), spec.condition)


def keys_of(on: Sequence[tuple[str, str]], bound: AnyBound) -> tuple[str, ...]:
    """The fields of a key in state, in the order of the conditions: guard, keys of the left side, window."""
    exact = isinstance(bound, Interval) and bound.exact
    place = ("time",) if exact else () if bound is None or isinstance(bound, Interval) else ("window",)
    return ("guard", *(left for left, _ in on), *place)


def _near(bound: AnyBound) -> list[Column]:
    """The condition that two rows are near each other in time.

    Spark derives from comparisons of the event-time columns when a row can be expired. A row must not be expired in the
    batch in which it comes, before it has matched there: therefore the bounds include at least the row's own time.
    """
    if bound is None:
        return []
    if not isinstance(bound, Interval):
        return [side_of(LEFT, WINDOW) == side_of(RIGHT, WINDOW)]
    if bound.exact:
        return [side_of(LEFT, EVENT_TIME) == side_of(RIGHT, EVENT_TIME)]
    least, most = max(bound.before, timedelta(0)), max(bound.after, timedelta(0))
    near = _between(EVENT_TIME, least, most)
    wider = (least, most) != (bound.before, bound.after)
    return [*near, *_between(PLAIN_TIME, bound.before, bound.after)] if wider else near


def _between(time: str, before: timedelta, after: timedelta) -> list[Column]:
    left, right = side_of(LEFT, time), side_of(RIGHT, time)
    return [right >= left - F.lit(before), right <= left + F.lit(after)]


def side_of(side: str, name: str) -> Column:
    """A field of one side."""
    return F.col(f"{side}.{quoted(name)}")


def joined_fields(ours: Sequence[str], theirs: Sequence[str], spec: JoinSpec) -> list[Column]:
    """The fields of the rows: `ours`, of the left side, and `theirs`, added or replacing them."""
    if spec.how not in OF_BOTH:
        return [side_of(LEFT, name).alias(name) for name in ours]
    if spec.prefix is not None:
        beside = [side_of(RIGHT, name).alias(f"{spec.prefix}{name}") for name in theirs]
        return [*(side_of(LEFT, name).alias(name) for name in ours), *beside]
    same = {name.casefold(): name for name in theirs}
    merged = [_merged(name, same.pop(name.casefold(), None)) for name in ours]
    return [*merged, *(side_of(RIGHT, name).alias(name) for name in same.values())]


def _merged(name: str, other: str | None) -> Column:
    """A field of the left side, or of the right one if it has one of that name and the row exists."""
    if other is None:
        return side_of(LEFT, name).alias(name)
    return F.when(side_of(RIGHT, GUARD).isNotNull(), side_of(RIGHT, other)).otherwise(side_of(LEFT, name)).alias(name)


def _place(spec: JoinSpec) -> list[Column]:
    """Start and end of the window in which the rows matched, or a row stayed unmatched."""
    if not _windowed(spec):
        return []
    sides = (LEFT, RIGHT) if spec.how in OF_BOTH else (LEFT,)
    return placed(F.coalesce(*(side_of(side, WINDOW) for side in sides)), spec)


def placed(window: Column, spec: JoinSpec) -> list[Column]:
    """Start and end of a window, in the time that it is over."""
    return [earlier(window[edge], spec.lag).alias(f"{edge}_time") for edge in ("start", "end")]


def check_join(left: DataFrame, right: DataFrame, spec: JoinSpec, *, step: str) -> None:
    """TopologyError for keys that Spark would compare by a cast, or by rounding, and for duplicate field names."""
    for one, two in spec.on:
        kinds = left.schema[one].dataType, right.schema[two].dataType
        here, there = (kind.simpleString() for kind in kinds)
        numbers = all(isinstance(kind, NumericType) for kind in kinds)
        if kinds[0] != kinds[1] and (not numbers or compared_by_rounding(here, there)):
            raise unlike_keys((one, here), (two, there), step=step)
    _check_names(left, right, spec, step)


def _check_names(left: DataFrame, right: DataFrame, spec: JoinSpec, step: str) -> None:
    """Each field of the rows must have one meaning, or, if the right side's replaces it, one type."""
    ours = {name.casefold(): name for name in visible(left.columns)}
    beside = visible(right.columns) if spec.how in OF_BOTH else []
    theirs = {f"{spec.prefix or ''}{name}".casefold(): name for name in beside}
    for folded in [name for name in ours if name in theirs]:
        kinds = left.schema[ours[folded]].dataType, right.schema[theirs[folded]].dataType
        if spec.prefix is not None:
            raise two_fields(ours[folded], "", step=step)
        if kinds[0] != kinds[1]:
            why = f", a {kinds[0].simpleString()} on the left and a {kinds[1].simpleString()} on the right"
            raise two_fields(ours[folded], why, step=step)
        if spec.times is not None and spec.times[0] != spec.times[1] and ours[folded] in spec.times:
            raise two_fields(ours[folded], ", one of them the time of a side", step=step)
    taken = {"start_time", "end_time"} & {*ours, *theirs} if _windowed(spec) else set()
    if taken:
        raise two_fields(min(taken), ", one of them of the join's window", step=step, remedy=RENAMED)
    if spec.early and "retracted" in {*ours, *theirs}:
        raise two_fields("retracted", ", one of them of an early join", step=step, remedy="rename it before")


def _windowed(spec: JoinSpec) -> bool:
    return spec.bound is not None and not isinstance(spec.bound, Interval | AsOf)
