"""The newest row of each key, by a processor."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.operators.join.processed import ROW, key_names
from rs_assets.records.columns import ORIGIN, PLACE, RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of


def newest_rows(frame: DataFrame, keys: Sequence[str], *, order_by: Sequence[str], gone: Column) -> DataFrame:
    """The changes of the newest row of each key: its fields and RETRACTED.

    The newest is the greatest by `order_by`, then the one that was read last (by ORIGIN and PLACE, if `frame` has
    them), then the greatest by its fields. A row for which `gone` is true removes its key.
    """
    check_types(frame.schema)
    names, fields = key_names(keys), visible(frame.columns)
    places = [name for name in (ORIGIN, PLACE) if name in frame.columns]
    gone = F.coalesce(gone, F.lit(False))  # noqa: FBT003  a literal
    # Without a position, a row wins over a retraction of the same batch.
    order = [*(F.col(quoted(name)) for name in order_by), *(map(F.col, places) if places else [~gone])]
    packed = frame.select(
        struct_of([name for name in fields if name not in keys]).alias(ROW),
        F.struct(*(column.alias(f"by_{place}") for place, column in enumerate(order))).alias("at"),
        gone.alias("gone"),
        *(F.col(quoted(key)).alias(name) for key, name in zip(keys, names, strict=True)),
    )
    processors = processors_of(packed)
    changed = DataFrame(processors.TableRows.apply(packed._jdf, len(order_by)), frame.sparkSession)  # noqa: SLF001
    known = dict(zip(keys, names, strict=True))
    shown = (quoted(known[name]) if name in known else f"{ROW}.{quoted(name)}" for name in fields)
    return changed.select(*(F.col(place).alias(name) for place, name in zip(shown, fields, strict=True)), RETRACTED)


def struct_of(fields: Sequence[str]) -> Column:
    """`fields` of a row as one column; without any, a field that says that there is a row."""
    columns = [F.col(quoted(name)) for name in fields]
    return F.struct(*(columns or [F.lit(True).alias("there")]))  # noqa: FBT003  a literal
