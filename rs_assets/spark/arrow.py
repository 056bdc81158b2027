"""mapInArrow for frames whose column names are not plain identifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

OnBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# Column names that PySpark reads as SQL: a dot selects a field of a struct.
MEANINGFUL = frozenset(".`")


def map_in_arrow(frame: DataFrame, function: OnBatches, schema: StructType) -> DataFrame:
    """`frame.mapInArrow(function, schema)`, also for a column named `http.status`, where mapInArrow itself fails."""
    names = tuple(frame.columns)
    if not any(MEANINGFUL & set(name) for name in names):
        return frame.mapInArrow(function, schema)
    numbered = frame.toDF(*(f"_{number}" for number in range(len(names))))
    return numbered.mapInArrow(_Renamed(function, names), schema)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Restores the column `names` of batches. Runs in Spark's Python workers."""

    function: OnBatches
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function over batches with the restored names."""
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)
