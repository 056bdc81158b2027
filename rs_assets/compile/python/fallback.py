"""A map of which Spark computes most: Python gets the records that it asks for, the others pass as Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from rs_assets.compile.python.python_step import FusedSteps, PythonStep
from rs_assets.records.columns import PREFIX, REASON, hidden
from rs_assets.spark.arrow import map_in_arrow

# The record, where it is for Python; null where Spark has made what comes of it.
ASKED = f"{PREFIX}asked"
# Which row of its batch a record is.
PLACE = f"{PREFIX}place"


def apply_to_asked(frame: DataFrame, step: PythonStep, *, quarantines: bool) -> DataFrame:
    """`frame`, of what a map makes and ASKED, with what `step` makes of the records in ASKED.

    With `quarantines` a row on which the step raises comes out with REASON; otherwise it ends the batch.
    """
    out = StructType([field for field in frame.schema.fields if field.name != ASKED])
    if quarantines:
        out = StructType([*out.fields, StructField(REASON, StringType())])
    made, schema = (to_arrow_schema(each, timezone="UTC") for each in (step.schema or StructType(), out))
    fused = FusedSteps((step,), (made,), schema.append(pa.field(PLACE, pa.int64())), quarantines)
    return map_in_arrow(frame, AskedRows(fused, schema), out)


@dataclass(frozen=True, slots=True)
class AskedRows:
    """What a Python worker runs: batches of `schema` and ASKED in, of `schema` out, in their order.

    `steps` makes of records what Spark has not made; rows on which they fail come out as it gives them.
    """

    steps: FusedSteps
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Put what the function makes of the asked records between the others."""
        for batch in batches:
            yield self._patched(batch) if batch.column(ASKED).null_count < batch.num_rows else self._as_made(batch)

    def _as_made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What Spark has made."""
        nothing = pa.nulls(batch.num_rows, pa.string())
        columns = [nothing if f.name == REASON else batch.column(f.name).cast(f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _patched(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbered = batch.append_column(PLACE, pa.array(range(batch.num_rows), pa.int64()))
        is_asked = batch.column(ASKED).is_valid()
        spared, asked = numbered.filter(pc.invert(is_asked)), numbered.filter(is_asked)
        (made,) = self.steps([_records(asked)])
        parts = [self._as_made(spared).append_column(PLACE, spared.column(PLACE)), made]
        table = pa.concat_tables([pa.Table.from_batches([part]) for part in parts])
        (whole,) = table.sort_by(PLACE).drop_columns([PLACE]).combine_chunks().to_batches()
        return whole


def _records(asked: pa.RecordBatch) -> pa.RecordBatch:
    """The records in ASKED, with what is hidden beside them."""
    record = asked.column(ASKED)
    fields = {field.name: column for field, column in zip(record.type, record.flatten(), strict=True)}
    beside = {name: asked.column(name) for name in hidden(asked.schema.names) if name != ASKED}
    return pa.RecordBatch.from_pydict(fields | beside)
