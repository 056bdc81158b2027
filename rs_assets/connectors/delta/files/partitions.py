"""Partition columns: Delta keeps their values as text in the log, not in the files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.records.columns import PREFIX
from rs_assets.records.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Columns from which Spark makes folders, one for each partition column.
PARTITION = f"{PREFIX}partition_"
# A prefix distinguishes an empty text, or one that equals Spark's word for null, from a null.
NULL, VALUE = "n", "v"
HOUR_MICROS, DAY_MICROS = 3_600_000_000, 86_400_000_000
# Python, and so Dagster, has no partitions long before or after; such a time often stands for none.
FIRST_TIME, LAST_TIME = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
PLAIN = (BooleanType, ByteType, DateType, DecimalType, IntegerType, LongType, ShortType, StringType)
TIME_FORMATS: dict[type[DataType], str] = {
    TimestampType: "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    TimestampNTZType: "yyyy-MM-dd HH:mm:ss.SSSSSS",
}


def with_event_partition(rows: DataFrame, partitions: EventTimePartitions) -> DataFrame:
    """`rows` with the column of their partitions by event time; null for rows without a time in the years 2 to 9998."""
    at = F.col(quoted(partitions.field)).cast("timestamp")
    return rows.withColumn(partitions.column, event_partition(at, partitions))


def event_partition(at: Column, partitions: EventTimePartitions) -> Column:
    """The value of the partition that holds the instant `at`; null for null, and outside of the years 2 to 9998."""
    # The time that clocks show there, as an instant; the session's own time zone has no effect.
    shown = F.unix_micros(F.from_utc_timestamp(at, partitions.zone))
    hour = F.timestamp_micros(F.unix_micros(at) - F.pmod(shown, F.lit(HOUR_MICROS)))
    # A double holds no larger number of microseconds exactly, but all numbers of days.
    day = F.date_from_unix_date(F.round((shown - F.pmod(shown, F.lit(DAY_MICROS))) / F.lit(DAY_MICROS)).cast("int"))
    value = {"hour": hour, "day": day, "month": F.trunc(day, "month")}[partitions.unit]
    return F.when((at >= F.lit(FIRST_TIME)) & (at < F.lit(LAST_TIME)), value)


def may_partition(kind: DataType) -> bool:
    """Whether each value of this type has a single exact text in Delta."""
    return isinstance(kind, PLAIN) or type(kind) in TIME_FORMATS


def partitioned(batch: DataFrame, partition_by: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """`batch` with its partition columns as texts for Spark's `partitionBy`, and their names."""
    texts = {f"{PARTITION}{n}": _text(batch, column) for n, column in enumerate(partition_by)}
    kept = [F.col(quoted(name)) for name in batch.columns if name not in partition_by]
    return batch.select(*kept, *(text.alias(name) for name, text in texts.items())), list(texts)


def _text(batch: DataFrame, name: str) -> Column:
    column, kind = F.col(quoted(name)), batch.schema[name].dataType
    form = TIME_FORMATS.get(type(kind))
    text = F.date_format(column, form) if form else column.cast("string")
    return F.coalesce(F.concat(F.lit(VALUE), text), F.lit(NULL))


def value_in(text: str) -> str | None:
    """The value in Delta's log; there an empty text is null for every type.

    >>> value_in("v2026-01-05"), value_in("v"), value_in("n")
    ('2026-01-05', None, None)
    """
    return text.removeprefix(VALUE) or None if text.startswith(VALUE) else None
