"""The newest row of each key, by a processor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.operators.join.processed import ROW, key_names
from rs_assets.records.columns import EVENT_TIME, ORIGIN, PLACE, PREFIX, RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

MILLISECOND = timedelta(milliseconds=1)
# The columns of the order of reading.
READ = tuple(f"{PREFIX}read_{number}" for number in range(3))


def newest_rows(
    frame: DataFrame,
    keys: Sequence[str],
    *,
    order_by: Sequence[str],
    gone: Column,
    lives: timedelta | None = None,
) -> DataFrame:
    """The changes of the newest row of each key: its fields and RETRACTED.

    The newest is the greatest by `order_by`, then the one that was read last (by ORIGIN and PLACE, if `frame` has
    them), then one that does not remove its key, then the greatest by its fields. A row for which `gone` is true
    removes its key. With `lives` a row goes when the watermark has passed its EVENT_TIME by that.
    """
    check_types(frame.schema)
    names, fields = key_names(keys), visible(frame.columns)
    gone = F.coalesce(gone, F.lit(False))  # noqa: FBT003  a literal
    order = [*(F.col(quoted(name)) for name in order_by), *order_of_reading(frame, gone)]
    # A plain time: Spark leaves out no row as late.
    since = [F.timestamp_micros(F.unix_micros(EVENT_TIME)).alias("since")] if lives is not None else []
    packed = frame.select(
        struct_of([name for name in fields if name not in keys]).alias(ROW),
        numbered(order).alias("at"),
        gone.alias("gone"),
        *since,
        *(F.col(quoted(key)).alias(name) for key, name in zip(keys, names, strict=True)),
    )
    rows = processors_of(packed).TableRows
    changes = rows.apply(packed._jdf, len(order_by), lives // MILLISECOND if lives is not None else 0)  # noqa: SLF001
    changed = DataFrame(changes, frame.sparkSession)
    known = dict(zip(keys, names, strict=True))
    shown = (quoted(known[name]) if name in known else f"{ROW}.{quoted(name)}" for name in fields)
    return changed.select(*(F.col(place).alias(name) for place, name in zip(shown, fields, strict=True)), RETRACTED)


def order_of_reading(frame: DataFrame, gone: Column) -> list[Column]:
    """By what the last of two records is known: by split, and by position in it.

    Of records without a position, or with the same one, a row wins over one that removes its key.
    """
    places = [F.col(name) for name in READ if name in frame.columns] or _places(frame)
    unplaced = [F.when(places[-1].isNull(), ~gone)] if places else []
    return [*unplaced, *places, ~gone]


def with_read(frame: DataFrame) -> DataFrame:
    """`frame` with its order of reading, as far as it has one, in READ: these columns outlast the check of times."""
    return frame.withColumns(dict(zip(READ, _places(frame), strict=False)))


def _places(frame: DataFrame) -> list[Column]:
    """By split, and by position in it, which is null where a source reads in no order.

    Of followed files that took each other's place the second is the split NAME@2, and the tenth NAME@10: so by length.
    """
    if PLACE not in frame.columns:
        return []
    return [*([F.octet_length(ORIGIN), F.col(ORIGIN)] if ORIGIN in frame.columns else []), F.col(PLACE)]


def numbered(columns: Sequence[Column]) -> Column:
    """`columns` as one, in their order."""
    return F.struct(*(column.alias(f"by_{place}") for place, column in enumerate(columns)))


def struct_of(fields: Sequence[str]) -> Column:
    """`fields` of a row as one column; without any, a field that says that there is a row."""
    columns = [F.col(quoted(name)) for name in fields]
    return F.struct(*(columns or [F.lit(True).alias("there")]))  # noqa: FBT003  a literal
