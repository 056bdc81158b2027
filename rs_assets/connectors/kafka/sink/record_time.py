"""The time of a record: from a named field, or the first of several that a row has; else the Kafka client's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType, TimestampType

from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.messages import no_record_time
from rs_assets.records.schema import quoted

TIMESTAMP: Final = "timestamp"
KINDS: Final = (TimestampType, TimestampNTZType)


def record_time(rows: DataFrame, shape: RecordShape, *, step: str) -> Column | None:
    """The time of each record in milliseconds, null for the clock's; None if no field of `rows` has one.

    Null and times before 1970 are replaced by the clock's. So are times of unnamed fields that are later than the
    clock: brokers would refuse rows of windows that are still open. TopologyError if the named field is not a time.
    """
    if shape.timestamp is not None:
        return _millis(_named(rows, shape.timestamp, step))
    found = [name for name in shape.times if name in rows.columns and isinstance(rows.schema[name].dataType, KINDS)]
    if not found:
        return None
    time = F.coalesce(*map(_time, found))
    return _millis(F.when(time <= F.current_timestamp(), time))


def as_named(shape: RecordShape, columns: Iterable[str]) -> RecordShape:
    """`shape` with the time field of a row of `columns` as if it were named: the clock is not compared."""
    found = next((name for name in shape.times if name in columns), None)
    return shape if found is None else replace(shape, timestamp=found, times=())


def _named(rows: DataFrame, name: str, step: str) -> Column:
    kind = rows.schema[name].dataType
    if not isinstance(kind, KINDS):
        raise no_record_time(name, kind.simpleString(), step=step)
    return _time(name)


def _time(name: str) -> Column:
    return F.col(quoted(name)).cast("timestamp")


def _millis(time: Column) -> Column:
    millis = F.unix_millis(time)
    return F.when(millis >= 0, millis)
