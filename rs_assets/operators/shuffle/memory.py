"""The shuffle inside a query: Spark's own exchange. Rows that are numbered before it outlast it in their order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.records.columns import ORDER_PIECE
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import package_in


def shuffle(frame: DataFrame, partitions: int, keys: Sequence[str] = ()) -> DataFrame:
    """`frame` over `partitions` partitions: rows of equal `keys` together, or evenly without keys."""
    return frame.repartition(partitions, *(F.col(quoted(key)) for key in keys))


def with_pieces(frame: DataFrame) -> DataFrame:
    """`frame` with ORDER_PIECE, if its rows carry ORDER: several rows of one record are numbered before they part."""
    if ORDER_PIECE not in frame.columns:
        return frame
    return frame.withColumn(ORDER_PIECE, F.coalesce(F.col(ORDER_PIECE), task_row(frame)))


def task_row(frame: DataFrame) -> Column:
    """A number that grows with the rows of a task; null in a session without the project's own jar."""
    package = package_in(frame.sparkSession)
    return no_row() if package is None else Column(package.RowInTask.column())


def no_row() -> Column:
    """The number of a row that has none."""
    return F.lit(None).cast("bigint")
