"""The first rows of each group of a table, by a processor that emits their changes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.operators.join.processed import ROW, key_names
from rs_assets.operators.table.rows import struct_of
from rs_assets.records.columns import RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

Order = tuple[str, bool]


def first_rows(
    frame: DataFrame, groups: Sequence[str], *, keys: Sequence[str], by: Sequence[Order], n: int, rank: str | None
) -> DataFrame:
    """The changes of the first `n` rows of each group by fields that descend or not, then by `keys`.

    `keys` identify a row of `frame`. The number of a row, from 1, is the field `rank`, if it has a name.
    """
    check_types(frame.schema)
    names, fields = key_names(groups), visible(frame.columns)
    packed = frame.select(
        struct_of(fields).alias(ROW),
        F.col(RETRACTED).alias("gone"),
        F.struct(*(F.col(quoted(key)) for key in keys)).alias("own"),
        *(F.col(quoted(group)).alias(name) for group, name in zip(groups, names, strict=True)),
    )
    processors = processors_of(packed)
    order = [f"{'-' if descending else '+'}{name}" for name, descending in by]
    changed = processors.TableTops.apply(packed._jdf, order, n, rank is not None)  # noqa: SLF001
    shown = [F.col(f"{ROW}.{quoted(name)}").alias(name) for name in fields]
    numbered = [F.col("rank").alias(rank)] if rank is not None else []
    return DataFrame(changed, frame.sparkSession).select(*shown, *numbered, RETRACTED)
