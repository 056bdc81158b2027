"""Open windows as they would fire now, from state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from rs_assets.engine.state.reader import VALUE, state_frame
from rs_assets.engine.window.spec import Aggregate, SessionWindow, Window

# How many fields of the buffer each aggregate takes; sums of decimals take one more.
WIDTH = {"count": 1, "sum": 1, "avg": 2, "min": 1, "max": 1, "distinct": 1, "count_distinct": 1, "collect": 1}
# The sketch of an approximate count, with the accuracy that Spark has by default.
SKETCH_FIELDS = 52
# Spark keeps these in a form of its own that has no reader.
OPAQUE = frozenset({"distinct", "count_distinct", "count_distinct_large", "collect"})


def open_windows(
    spark: SparkSession,
    checkpoint: Path,
    *,
    window: Window,
    group_by: Sequence[str],
    aggregates: Sequence[Aggregate],
    water_mark: timedelta,
) -> DataFrame:
    """The rows that the open windows would give if they fired now, as window rows are, and `open`, which is true.

    Collected and distinct values are null: Spark keeps them in a form that nobody else reads.
    """
    frame = state_frame(spark, checkpoint)
    kind = frame.schema[VALUE].dataType
    assert isinstance(kind, StructType)  # noqa: S101  an aggregation keeps a struct
    session = isinstance(window, SessionWindow)
    place = f"{VALUE}.session_window" if session else "key.window"
    # A session's value begins with its window and its group.
    names = kind.fieldNames()[1 + (len(group_by) or 1) if session else 0 :]
    columns: list[Column] = [F.col(f"{VALUE if session else 'key'}.`{name}`").alias(name) for name in group_by]
    for spec in aggregates:
        width = _width(spec, kind, names)
        columns.append(_value(spec, names).alias(spec.alias))
        names = names[width:]
    end = F.col(f"{place}.end")
    return frame.select(
        *columns,
        F.col(f"{place}.start").alias("start_time"),
        end.alias("end_time"),
        (end + F.make_dt_interval(secs=F.lit(water_mark.total_seconds()))).alias("fire_time"),
        F.lit(True).alias("open"),  # noqa: FBT003  Spark's form of a literal
    )


def _width(spec: Aggregate, kind: StructType, names: Sequence[str]) -> int:
    if spec.function == "count_distinct_large":
        return SKETCH_FIELDS
    decimal = spec.function == "sum" and isinstance(kind[names[0]].dataType, DecimalType)
    return WIDTH[spec.function] + (1 if decimal else 0)


def _value(spec: Aggregate, names: Sequence[str]) -> Column:
    if spec.function in OPAQUE:
        return F.lit(None).cast("string")
    first = F.col(f"{VALUE}.`{names[0]}`")
    if spec.function == "avg":
        rows = F.col(f"{VALUE}.`{names[1]}`")
        return F.when(rows > 0, (first / rows).cast("double"))
    if spec.function == "sum" and len(names) > 1 and names[1].startswith("isEmpty"):
        return F.when(~F.col(f"{VALUE}.`{names[1]}`"), first)
    return first
