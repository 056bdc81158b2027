"""Compiled maps with a fallback: Python gets the records that were not compiled, the others pass as Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from rs_assets.compile.python.python_step import FusedSteps, PythonStep
from rs_assets.compile.python.sent import sent
from rs_assets.records.columns import PREFIX, REASON, hidden
from rs_assets.spark.arrow import map_in_arrow

# The record, if it is for Python; null if Spark has computed its result.
ASKED = f"{PREFIX}asked"
# The row number of a record in its batch; rows may have the PLACE of their source, too.
NUMBER = f"{PREFIX}asked_number"


def apply_to_asked(frame: DataFrame, step: PythonStep, *, quarantines: bool) -> DataFrame:
    """`frame`, of a map's results and ASKED, with the results of `step` for the records in ASKED.

    With `quarantines` a row on which the step raises comes out with REASON; otherwise it ends the batch.
    """
    out = StructType([field for field in frame.schema.fields if field.name != ASKED])
    if quarantines:
        out = StructType([*out.fields, StructField(REASON, StringType())])
    made, schema = (to_arrow_schema(each, timezone="UTC") for each in (step.schema or StructType(), out))
    fused = FusedSteps((step,), (made,), schema.append(pa.field(NUMBER, pa.int64())), quarantines)
    return map_in_arrow(frame, sent(AskedRows(fused, schema), step.call), out)


@dataclass(frozen=True, slots=True)
class AskedRows:
    """Runs in a Python worker: batches of `schema` and ASKED in, of `schema` out, in their order.

    `steps` are applied to the records that Spark has not computed; rows on which they fail come out with REASON.
    """

    steps: FusedSteps
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Insert the function's results for the asked records."""
        for batch in batches:
            yield self._patched(batch) if batch.column(ASKED).null_count < batch.num_rows else self._as_made(batch)

    def _as_made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The results that Spark has computed."""
        nothing = pa.nulls(batch.num_rows, pa.string())
        columns = [nothing if f.name == REASON else batch.column(f.name).cast(f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _patched(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbered = batch.append_column(NUMBER, pa.array(range(batch.num_rows), pa.int64()))
        is_asked = batch.column(ASKED).is_valid()
        spared, asked = numbered.filter(pc.invert(is_asked)), numbered.filter(is_asked)
        (made,) = self.steps([_records(asked)])
        parts = [self._as_made(spared).append_column(NUMBER, spared.column(NUMBER)), made]
        table = pa.concat_tables([pa.Table.from_batches([part]) for part in parts])
        (whole,) = table.sort_by(NUMBER).drop_columns([NUMBER]).combine_chunks().to_batches()
        return whole


def _records(asked: pa.RecordBatch) -> pa.RecordBatch:
    """The records in ASKED, with their hidden columns."""
    record = asked.column(ASKED)
    fields = {field.name: column for field, column in zip(record.type, record.flatten(), strict=True)}
    beside = {name: asked.column(name) for name in hidden(asked.schema.names) if name != ASKED}
    return pa.RecordBatch.from_pydict(fields | beside)
