"""The event time of a record, and the control rows that advance the watermark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, TimestampNTZType, TimestampType

from rs_assets.common.folder import Folder, make_folder
from rs_assets.connectors.delta.log.store import replace_in, write_file
from rs_assets.connectors.files.listing import is_hidden
from rs_assets.errors import UnknownFieldError
from rs_assets.operators.window.batch_time import batch_constant
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.durations import EPOCH, LONGEST
from rs_assets.operators.window.messages import TEXT_FORMAT, no_event_time
from rs_assets.records.columns import CONTROL, EVENT_TIME, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.object_store import prepare_reading

# Later than the end of any window, and still a timestamp for Spark and Delta; and the first timestamp of Python.
END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)
BEGIN_OF_TIME = datetime(1, 1, 1, tzinfo=UTC)
# A watermark from here on is one of the end of time, less a delay; no row may have such a time.
LAST_TIME = END_OF_TIME - LONGEST
# The key of Spark's metadata of an event-time column (EventTimeWatermark.delayKey): the delay in milliseconds.
WATERMARK_DELAY = "spark.watermarkDelayMs"
# No boolean has this hash in Spark. The optimizer does not know it.
NO_HASH = 0
# Text with a full date: Spark reads `10:00` as that time today, and `2026` as its first of January.
DATED = r"^\s*\d{4,}-\d{1,2}-\d{1,2}(\D|$)"


def event_time(frame: DataFrame, field: str | None, *, step: str, now: Column) -> Column:
    """The event time of each row as a timestamp, null if it has none; `now` if `field` is None (arrival)."""
    if field is None:
        return now
    if field not in frame.columns:
        raise UnknownFieldError(field, step=step, known=tuple(visible(frame.columns)))
    return _as_timestamp(F.col(quoted(field)), frame.schema[field].dataType, field, step)


def time_reason(at: Column, bounds: EventTimeBounds, *, now: Column) -> Column:
    """The reason why an event time is not accepted; null for a good one."""
    text = at.cast("string")
    return F.coalesce(
        F.when(at.isNull(), F.lit("no event time")),
        F.when(at < F.lit(bounds.earliest), F.concat(F.lit("event time before the earliest: "), text)),
        F.when(_too_far_ahead(at, bounds, now=now), F.concat(F.lit("event time too far ahead: "), text)),
    )


def _too_far_ahead(at: Column, bounds: EventTimeBounds, *, now: Column) -> Column:
    """Whether `at` is further ahead of the batch's clock than `bounds` allow."""
    # Longer ones have no effect, and are not valid intervals in Spark.
    ahead = min(bounds.max_ahead, END_OF_TIME - EPOCH)
    latest = batch_constant(now + F.make_dt_interval(secs=F.lit(ahead.total_seconds())))
    return (at >= F.lit(LAST_TIME)) | (at > latest)


def has_ended(watermark: datetime) -> bool:
    """Whether a watermark, which has a delay, means that the input has ended."""
    return watermark >= LAST_TIME


def moving(watermark: datetime | None) -> datetime | None:
    """A watermark that is a time of the rows: None before the first one came, and when the input has ended."""
    return None if watermark is None or watermark <= EPOCH or has_ended(watermark) else watermark


def watermark_in_words(watermark: datetime | None) -> str:
    """A watermark as text.

    >>> watermark_in_words(datetime(2026, 11, 24, 8, tzinfo=UTC)), watermark_in_words(EPOCH), watermark_in_words(None)
    ('2026-11-24 08:00:00', 'none yet', '')
    """
    if watermark is None:
        return ""
    at = moving(watermark)
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None else "end of input" if has_ended(watermark) else "none yet"


def with_control(spark: SparkSession, frame: DataFrame, folder: Folder, *, name: str) -> DataFrame:
    """`frame` (with EVENT_TIME) united with the control rows that are written to `folder`, marked by CONTROL."""
    rows = spark.readStream.name(name).schema(f"{EVENT_TIME} timestamp").json(_begun(spark, folder))
    return (
        maybe_null(frame)
        .withColumn(CONTROL, F.lit(col=False))
        .unionByName(rows.select(EVENT_TIME).withColumn(CONTROL, F.lit(col=True)), allowMissingColumns=True)
    )


def _begun(spark: SparkSession, folder: Folder) -> str:
    """The folder of control rows for Spark; it is created."""
    make_folder(folder)
    place = str(folder)
    if isinstance(folder, Path):
        return place
    # A folder without files is none in a store. Spark leaves out names that begin like this.
    write_file(place, "_begun", b"")
    prepare_reading(spark, place)
    # A pattern that only this folder matches: of a plain folder Spark refuses planned files that are elsewhere, and
    # each run has a folder of its own.
    return f"{place[:-1]}[{place[-1]}]"


def maybe_null(frame: DataFrame) -> DataFrame:
    """`frame` with fields that Spark does not know to be never null.

    In a batch without control rows Spark leaves out their side of the union, and knows of a field such as
    `coalesce(page, '')` that it is never null, of a constant its value: the keys and rows of the state would have
    another schema than in a batch with control rows, and Spark would refuse the state.
    """
    sure = [field.name for field in frame.schema.fields if not field.nullable and field.name != EVENT_TIME]
    if not sure:
        return frame
    known = next((field.name for field in frame.schema.fields if field.nullable), None)
    some = F.hash(F.isnull(F.col(quoted(known)))) != NO_HASH if known is not None else F.spark_partition_id() >= 0
    return frame.withColumns({name: F.when(some, F.col(quoted(name))) for name in sure})


def control_folder(folder: Folder, name: str) -> Folder:
    """The folder with the control rows of the source `name`, in the folder of its query.

    >>> control_folder(Path("window"), "rs_control").as_posix()
    'window/control'
    """
    return folder / name.removeprefix("rs_")


def drop_control(frame: DataFrame) -> DataFrame:
    """`frame` after its watermark, without control rows.

    The optimizer must not push this filter below the watermark, or the watermark would never see the control rows:
    therefore the condition uses the event time. And it must not push downstream conditions past it, such as one on a
    group of the window, for which a control row has no value: therefore the condition is not deterministic.
    """
    control = F.col(CONTROL) & F.col(EVENT_TIME).isNotNull()
    return frame.filter(~control & (F.spark_partition_id() >= 0)).drop(CONTROL)


def marked(frame: DataFrame, kept: timedelta) -> DataFrame:
    """`frame` with EVENT_TIME as the event time of Spark's watermark, with the delay `kept`.

    A column that was computed, or that came back from Python, has lost the metadata that `withWatermark` sets. A query
    must not have a second watermark, and the steps of a chain share one.
    """
    delay = kept // timedelta(milliseconds=1)
    others = [F.col(quoted(name)) for name in frame.columns if name != EVENT_TIME]
    return frame.select(*others, F.col(EVENT_TIME).alias(EVENT_TIME, metadata={WATERMARK_DELAY: delay}))


def watermark_id(watched: DataFrame) -> str:
    """The id of the operator that `withWatermark` has put on top of a frame, in the plan of each batch."""
    return str(watched._jdf.queryExecution().logical().nodeId().toString())  # noqa: SLF001  there is no public way


def send_control(folder: Folder, at: datetime) -> None:
    """Write a control row that moves the watermark to `at`; it takes effect in the query's next batch."""
    row = json.dumps({EVENT_TIME: at.isoformat()}) + "\n"
    replace_in(folder, f"control-{uuid.uuid4().hex}.json", row.encode())


def waiting_controls(folder: Folder, read: Collection[str]) -> Iterator[Path]:
    """The files of control rows in `folder`, but those named in `read`.

    In an object store each run has a folder of its own, so none waits there.
    """
    if isinstance(folder, Path) and folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if not is_hidden(path.name) and path.name not in read)


def _as_timestamp(column: Column, kind: DataType, field: str, step: str) -> Column:
    match kind:
        case TimestampType() | TimestampNTZType():
            return column.cast("timestamp")
        case LongType():
            return F.timestamp_millis(_within_time(column))
        case StringType():
            dated = F.when(column.rlike(DATED), column.try_cast("timestamp"))
            return F.coalesce(F.try_to_timestamp(column, F.lit(TEXT_FORMAT)), dated)
    raise no_event_time(field, kind.simpleString(), step=step)


def _within_time(millis: Column) -> Column:
    """Epoch milliseconds, limited to the range of timestamps: an overflow of nanoseconds would end the query."""
    first, last = (int(at.timestamp() * 1000) for at in (BEGIN_OF_TIME, END_OF_TIME))
    return F.when(millis > last, F.lit(last)).when(millis < first, F.lit(first)).otherwise(millis)
