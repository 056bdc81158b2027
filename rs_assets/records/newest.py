"""The last row of each key, as upserts write it, and rows in the order in which they were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

from rs_assets.records.columns import ORDER, PREFIX, visible
from rs_assets.records.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBER = f"{PREFIX}number"


def winners(rows: pa.Table, *, keys: Sequence[str], order_by: Sequence[str], deletes: str | None = None) -> pa.Table:
    """One row a key, as a merge must not see a key twice: the last by `order_by`, then by the position of reading.

    Without either, a row that is not deleted wins over one that is: of a row and its retraction in one batch, which a
    shuffle may have reordered, the row is the newer one. Equal rows keep the order of the batch; null sorts before all
    values, NaN after them. Hidden order columns are removed. Rows have the 0.0 and the NaN of their key, so that a
    later batch finds them.
    """
    by = [*order_by, *(name for name in ORDER if name in rows.column_names)]
    columns = [part for name in by for part in ordered(rows[name])]
    if not by and deletes is not None:
        columns = [pc.invert(pc.fill_null(rows[deletes], fill_value=False))]
    rows = _sorted(rows, columns)
    rows = rows.drop_columns([name for name in ORDER if name in rows.column_names])
    for key in keys:
        at = rows.column_names.index(key)
        rows = rows.set_column(at, rows.schema.field(at), _as_key(rows[key]))
    names = [str(n) for n in range(len(keys))]
    places = pa.table(
        [*(rows[key] for key in keys), pa.array(range(rows.num_rows), pa.int64())], names=[*names, "place"]
    )
    last = places.group_by(names, use_threads=False).aggregate([("place", "max")])
    return rows.take(last["place_max"].sort())


def winners_of(
    frame: DataFrame, *, keys: Sequence[str], order_by: Sequence[str], deletes: str | None = None
) -> DataFrame:
    """The same as `winners`, for a frame that is kept in memory."""
    from pyspark.sql import Window

    by = [*order_by, *(name for name in ORDER if name in frame.columns)]
    newest = [F.col(quoted(name)).desc_nulls_last() for name in by]
    newest = newest or [F.coalesce(F.col(quoted(deletes or "")), F.lit(False)).asc()] * bool(deletes)  # noqa: FBT003  a literal
    window = Window.partitionBy(*(F.col(quoted(key)) for key in keys)).orderBy(*newest, F.col(NUMBER).desc())
    kinds = {key: frame.schema[key].dataType for key in keys}
    frame = frame.withColumns(
        {key: one_zero(F.col(quoted(key)), kind) for key, kind in kinds.items() if floating(kind)}
    )
    ranked = frame.withColumn(NUMBER, F.monotonically_increasing_id()).withColumn(NUMBER, F.row_number().over(window))
    return ranked.filter(F.col(NUMBER) == 1).drop(NUMBER, *(name for name in ORDER if name in frame.columns))


def in_read_order(rows: pa.Table) -> pa.Table:
    """The rows in the order in which they were read, as far as that is known, without the columns that say so."""
    by = [name for name in ORDER if name in rows.column_names]
    return _sorted(rows, [part for name in by for part in ordered(rows[name])]).drop_columns(by)


def kept(rows: pa.Table, deletes: str | None) -> pa.Table:
    """The rows that are not deleted, in a new table, without hidden columns."""
    if deletes is None:
        return rows
    return rows.filter(pc.invert(pc.fill_null(rows[deletes], fill_value=False))).select(visible(rows.column_names))


def ordered(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Columns by which Arrow, with null at the start, has the order of Spark: NaN, too, would be at the start."""
    if not pa.types.is_floating(column.type):
        return [column]
    return [pc.is_nan(column), pc.add(column, pa.scalar(0.0, column.type))]


def one_zero(column: Column, kind: DataType) -> Column:
    """A key with one zero and one NaN, as groups have them; other keys as they are."""
    if not floating(kind):
        return column
    return F.when(F.isnan(column), F.lit(float("nan")).cast(kind)).otherwise((column + F.lit(0.0)).cast(kind))


def floating(kind: DataType) -> bool:
    """Whether values may be -0.0 or NaN."""
    return isinstance(kind, FloatType | DoubleType)


def _sorted(rows: pa.Table, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    """The rows by the columns, null first."""
    if not columns:
        return rows
    # Columns are numbered, since Arrow reads a name with a leading dot as a path.
    numbered = pa.table(columns, names=[str(n) for n in range(len(columns))])
    keys = [(n, "ascending", "at_start") for n in numbered.column_names]
    return rows.take(pc.sort_indices(numbered, sort_keys=keys))


def _as_key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that are grouped as Spark groups them: Arrow takes -0.0 and 0.0 for two, and NaN by its bits."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
