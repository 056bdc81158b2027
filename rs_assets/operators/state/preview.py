"""Previews from state: open windows as they would fire now, and rows of joins that wait for a match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from rs_assets.operators.state.reader import VALUE, StateOf, state_frame, store_frame
from rs_assets.operators.window.aggregate import at_close
from rs_assets.operators.window.assign import WINDOW, earlier
from rs_assets.operators.window.output import Aggregate
from rs_assets.operators.window.spec import Window
from rs_assets.records.columns import visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import package_in

# The buffer fields of each aggregate; sums of decimals have one more.
WIDTH = {"count": 1, "sum": 1, "avg": 2, "min": 1, "max": 1, "distinct": 1, "count_distinct": 1, "collect": 1}
# The sketch of an approximate count, with the accuracy that Spark has by default.
SKETCH_FIELDS = 52
# Spark stores these in a form without a reader; of distinct values it shows the number.
OPAQUE = frozenset({"distinct", "count_distinct_large", "collect"})
# Aggregates that Spark computes from one buffer, if they are over one field.
SHARED = {"count_distinct": "distinct"}


def open_windows(
    spark: SparkSession,
    state: StateOf,
    *,
    window: Window,
    group_by: Sequence[str],
    aggregates: Sequence[Aggregate],
    water_mark: timedelta,
    opaque: Iterable[str] = (),
    lag: timedelta = timedelta(0),
) -> DataFrame:
    """The rows that the open windows would emit now, in the form of window rows, and `open`, which is true.

    `lag` is how long after its end a window closes. Collected and distinct values are null without a type, and so are
    the columns `opaque`, whose buffers follow those of `aggregates`: Spark stores them in a form without a reader.
    """
    session, fired = window.merges, state.variable is not None
    counted = window.in_order
    frame = state_frame(spark, state)
    frame = frame.select("key", F.explode(f"{VALUE}.{window.state_name}").alias(VALUE)) if session and fired else frame
    frame = frame.filter(F.col(f"{VALUE}.rows") > 0) if counted else frame
    kind = frame.schema[VALUE].dataType
    assert isinstance(kind, StructType)  # an aggregation keeps a struct
    # Spark's own state of a session begins with its window and its group.
    inside = session and not fired
    names = kind.fieldNames()[1 + (len(group_by) or 1) if inside else 0 :]
    stored = _stored_keys(frame, window) if fired else group_by
    columns: list[Column] = [
        F.col(f"{VALUE if inside else 'key'}.{quoted(own)}").alias(name)
        for name, own in zip(group_by, stored, strict=False)
    ]
    columns += [_value(spark, spec, own).alias(spec.alias) for spec, own in _buffers(aggregates, kind, names)]
    columns += [F.lit(None).alias(name) for name in opaque]
    place = _place(window, fired=fired)
    start, end = (earlier(F.col(f"{place}.{edge}"), lag) for edge in ("start", "end"))
    return frame.select(
        *columns,
        start.alias("start_time"),
        end.alias("end_time"),
        (F.col(f"{VALUE}.fire_at") if fired and not counted else at_close(water_mark + lag)(end)).alias("fire_time"),
        F.lit(True).alias("open"),  # noqa: FBT003  Spark's form of a literal
    )


def _stored_keys(frame: DataFrame, window: Window) -> list[str]:
    """The names of groups in the state of a processor, after the window if any; they may differ from the fields'."""
    kind = frame.schema["key"].dataType
    assert isinstance(kind, StructType)  # a processor's key is a struct
    return kind.fieldNames()[1 if window.by_time else 0 :]


def waiting_rows(spark: SparkSession, state: StateOf) -> DataFrame:
    """The rows that a join keeps: `side`, whether one has been `matched`, and its fields in `left` or `right`.

    A row in several windows appears for each of them. Semi joins keep left rows only until they are matched.
    """
    if state.variable is not None:
        waiting = state_frame(spark, state)
        frames = [_waiting(waiting, side) for side in ("left", "right")]
        return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), frames)
    frames = [_side(store_frame(spark, state, store), side) for side, store in (state.stores or {}).items()]
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), frames)


def _waiting(frame: DataFrame, side: str) -> DataFrame:
    """The rows of one side in a processor's state."""
    rows = frame.select(F.explode(f"{VALUE}.{side}").alias("row")).select("row.*")
    return rows.select(F.lit(side).alias("side"), "matched", F.col("row").alias(side))


def _side(frame: DataFrame, side: str) -> DataFrame:
    kind = frame.schema[VALUE].dataType
    assert isinstance(kind, StructType)  # a join keeps its rows
    # Spark's own field is the last; another of that name belongs to the row.
    *names, matched = kind.fieldNames()
    fields = [F.col(f"{VALUE}.{quoted(name)}").alias(name) for name in visible(names)]
    known = F.col(f"{VALUE}.`{matched}`").alias("matched")
    return frame.select(F.lit(side).alias("side"), known, F.struct(*fields).alias(side))


def _place(window: Window, *, fired: bool) -> str:
    """The struct of the state that holds the window."""
    if not window.by_time:
        return VALUE if fired else f"{VALUE}.session_window"
    return f"key.{'window' if window.native else WINDOW}"


def _buffers(
    aggregates: Iterable[Aggregate], kind: StructType, names: Sequence[str]
) -> Iterable[tuple[Aggregate, Sequence[str]]]:
    """Each aggregate and the fields of its buffer; Spark keeps one buffer for equal aggregates."""
    known: dict[tuple[str, str | None], Sequence[str]] = {}
    for spec in aggregates:
        key = (SHARED.get(spec.function, spec.function), spec.field)
        if key not in known:
            width = _width(spec, kind, names)
            known[key], names = names[:width], names[width:]
        yield spec, known[key]


def _stored_count(spark: SparkSession, stored: Column) -> Column:
    """The number of values in a stored collection; null in a session of Spark without the processors' jar."""
    package = package_in(spark)
    if package is None:
        return F.lit(None).cast("bigint")
    counted = Column(package.StoredCount.column(cast("Any", stored)._jc))  # noqa: SLF001
    return F.coalesce(counted, F.lit(0).cast("bigint"))


def _width(spec: Aggregate, kind: StructType, names: Sequence[str]) -> int:
    if spec.function == "count_distinct_large":
        return SKETCH_FIELDS
    decimal = spec.function == "sum" and isinstance(kind[names[0]].dataType, DecimalType)
    return WIDTH[spec.function] + (1 if decimal else 0)


def _value(spark: SparkSession, spec: Aggregate, names: Sequence[str]) -> Column:
    if spec.function in OPAQUE:
        return F.lit(None)
    first = F.col(f"{VALUE}.`{names[0]}`")
    if spec.function == "count_distinct":
        return _stored_count(spark, first)
    if spec.function == "avg":
        rows = F.col(f"{VALUE}.`{names[1]}`")
        return F.when(rows > 0, (first / rows).cast("double"))
    if spec.function == "sum" and len(names) > 1:
        return F.when(~F.col(f"{VALUE}.`{names[1]}`"), first)
    return first
