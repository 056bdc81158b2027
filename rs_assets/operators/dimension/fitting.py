"""The last part of a left join with a condition: keeps matching candidates, or an unmatched row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rs_assets.records.columns import PREFIX
from rs_assets.spark.arrow import map_in_arrow

# The number of a candidate among those of its row, from 0, and whether it matches.
POSITION, FITS = f"{PREFIX}position", f"{PREFIX}fits"


def keep_fitting(rows: DataFrame, right: str) -> DataFrame:
    """The candidates that match; for a row without any its first one, with null as `right`.

    The candidates of a row follow one another, as an explode leaves them.
    """
    schema = StructType([field for field in rows.schema.fields if field.name not in {POSITION, FITS}])
    return map_in_arrow(rows, _Keep(right, tuple(schema.names)), schema)


@dataclass(frozen=True, slots=True)
class _Keep:
    """Runs in a Python worker. A row's candidates may be in several batches."""

    right: str
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decide on each row after its last candidate."""
        waiting: pa.RecordBatch | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            fits = batch.column(FITS).to_numpy(zero_copy_only=False).astype(np.bool_)
            first = batch.column(POSITION).to_numpy() == 0
            # The rows of the stream in this batch, from 1; 0 is the one that continues from the previous batch.
            group = np.cumsum(first)
            met = np.zeros(group[-1] + 1, np.bool_)
            met[group[fits]] = True
            if waiting is not None and (met[0] or group[-1] > 0):
                if not met[0]:
                    yield self._out(waiting, np.zeros(1, np.int64), np.zeros(1, np.bool_))
                waiting = None
            kept = fits | (first & ~met[group])
            if group[-1] > 0 and not met[-1]:
                last = int(np.flatnonzero(first)[-1])
                waiting, kept[last] = batch.slice(last, 1), False
            yield self._out(batch, np.flatnonzero(kept), fits[kept])
        if waiting is not None:
            yield self._out(waiting, np.zeros(1, np.int64), np.zeros(1, np.bool_))

    def _out(self, batch: pa.RecordBatch, rows: Any, fits: Any) -> pa.RecordBatch:
        taken = {name: pa.array(rows) for name in self.names}
        taken[self.right] = pa.array(rows, mask=~fits)
        return pa.RecordBatch.from_arrays([batch.column(name).take(taken[name]) for name in self.names], self.names)
