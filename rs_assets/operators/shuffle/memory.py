"""The shuffle inside a query: Spark's own exchange."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def shuffle(frame: DataFrame, partitions: int, keys: Sequence[str] = ()) -> DataFrame:
    """`frame` over `partitions` partitions: rows of equal `keys` together, or evenly without keys."""
    return frame.repartition(partitions, *(F.col(f"`{key}`") for key in keys))
