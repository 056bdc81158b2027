"""Windowed aggregation on Spark's own operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DayTimeIntervalType, NumericType, YearMonthIntervalType

from rs_assets.engine.source.columns import EVENT_TIME, visible
from rs_assets.engine.window.spec import Aggregate, AggregateFunction, SessionWindow, Window
from rs_assets.errors import TopologyError, UnknownFieldError

WINDOW = "_rs_window"


def _collected(column: Column) -> Column:
    """All values ordered by event time: an order that does not depend on how the input was cut into batches."""
    pairs = F.array_sort(F.collect_list(F.when(column.isNotNull(), F.struct(F.col(EVENT_TIME), column.alias("value")))))
    return F.transform(pairs, lambda pair: pair["value"])


FUNCTIONS: Mapping[AggregateFunction, Callable[[Column], Column]] = MappingProxyType(
    {
        "count": F.count,
        "sum": F.sum,
        # The mean of decimals would be a decimal.
        "avg": lambda c: F.avg(c).cast("double"),
        "min": F.min,
        "max": F.max,
        "distinct": lambda c: F.array_sort(F.collect_set(c)),
        "count_distinct": lambda c: F.size(F.collect_set(c)).cast("bigint"),
        "count_distinct_large": F.approx_count_distinct,
        "collect": _collected,
    }
)

# What can be added up.
ADDED: Mapping[AggregateFunction, tuple[type[DataType], ...]] = MappingProxyType(
    {"sum": (NumericType, DayTimeIntervalType, YearMonthIntervalType), "avg": (NumericType,)}
)


def aggregate(
    frame: DataFrame,
    window: Window,
    *,
    group_by: Sequence[str],
    aggregates: Sequence[Aggregate],
    fire_time: Callable[[Column], Column],
) -> DataFrame:
    """Window rows of `frame`, which carries EVENT_TIME and its watermark: groups, aggregates, start, end, fire time.

    `fire_time` makes the last of them from the window's end.
    """
    keys = [F.col(f"`{name}`") for name in group_by]
    if isinstance(window, SessionWindow) and not keys:
        # Spark has no session over a whole stream: one key for all makes it one group. It must not be a literal, which
        # the optimizer would remove again.
        keys = [(F.unix_micros(EVENT_TIME) * F.lit(0)).alias("_rs_all")]
    columns = [_aggregate(a).alias(a.alias) for a in aggregates]
    rows = frame.groupBy(_assigned(window).alias(WINDOW), *keys).agg(*columns)
    end = F.col(f"{WINDOW}.end")
    return rows.select(
        *(F.col(f"`{name}`") for name in (*group_by, *(a.alias for a in aggregates))),
        F.col(f"{WINDOW}.start").alias("start_time"),
        end.alias("end_time"),
        fire_time(end).alias("fire_time"),
    )


def at_close(water_mark: timedelta) -> Callable[[Column], Column]:
    """The event time at which a window may fire."""
    return lambda end: end + F.make_dt_interval(secs=F.lit(water_mark.total_seconds()))


def at_clock(now: Column) -> Callable[[Column], Column]:
    """The batch's clock `now`.

    Plainly it would be a constant in the code that Spark generates, which each batch compiles again; in a lambda not.
    """
    return lambda end: F.transform(F.array(end), lambda _: now)[0]


def needed_fields(group_by: Sequence[str], aggregates: Sequence[Aggregate]) -> list[str]:
    """The fields a window reads, each once."""
    return list(dict.fromkeys([*group_by, *(a.field for a in aggregates if a.field is not None)]))


def check_fields(frame: DataFrame, fields: Sequence[str], *, step: str) -> None:
    """Raise UnknownFieldError for the first of `fields` that `frame` has not."""
    known = tuple(visible(frame.columns))
    for field in fields:
        if field not in known:
            raise UnknownFieldError(field, step=step, known=known)


def check_numbers(frame: DataFrame, aggregates: Sequence[Aggregate], *, step: str) -> None:
    """Raise TopologyError for the first sum or mean of what is no number: Spark would cast it without a word."""
    for spec in aggregates:
        kinds = ADDED.get(spec.function)
        kind = frame.schema[spec.field].dataType if kinds and spec.field is not None else None
        if kinds and kind is not None and not isinstance(kind, kinds):
            raise TopologyError(
                f"step {step!r} cannot take the {spec.function} of {spec.field!r}, which is a {kind.simpleString()}",
                remedy=f"make it a number before (text: .with_fields({spec.field}='cast({spec.field} as double)'));"
                " min, max, distinct and collect take other types too",
                step=step,
            )


def last_end(window: Window) -> Column:
    """The end of the last window that a row belongs to: the row is late when the watermark has passed it."""
    at = F.col(EVENT_TIME)
    if isinstance(window, SessionWindow):
        return at + F.make_dt_interval(secs=F.lit(window.gap.total_seconds()))
    slide = F.lit(_micros(window.slide))
    start = F.unix_micros(at) - F.pmod(F.unix_micros(at), slide)
    return F.timestamp_micros(start + F.lit(_micros(window.size)))


def duration_text(duration: timedelta) -> str:
    """A duration as Spark's window functions take it.

    >>> duration_text(timedelta(seconds=10))
    '10000 milliseconds'
    """
    return f"{duration // timedelta(milliseconds=1)} milliseconds"


def _assigned(window: Window) -> Column:
    if isinstance(window, SessionWindow):
        return F.session_window(EVENT_TIME, duration_text(window.gap))
    return F.window(EVENT_TIME, duration_text(window.size), duration_text(window.slide))


def _aggregate(spec: Aggregate) -> Column:
    argument = F.lit(1) if spec.field is None else F.col(f"`{spec.field}`")
    return FUNCTIONS[spec.function](argument)


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
