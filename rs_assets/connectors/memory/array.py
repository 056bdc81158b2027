"""The source of rows that are given in the program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.memory import spool
from rs_assets.connectors.memory.spooled import spool_batch, spool_order, spool_stream
from rs_assets.connectors.source import Known, Positions, Reading, Start, sealed_error
from rs_assets.records.rows import infer_schema

# The only split of an array.
ARRAY_SPLIT = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayReader:
    """Exactly once: the rows are written into the query's folder, and a batch is a range of these files."""

    name: str
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)

    def stream(self, reading: Reading) -> DataFrame:
        """The rows, in order."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = self._schema(reading)
        folder = reading.folder / "arrays" / self.name
        spool.write_array(folder, self.rows, to_arrow_schema(schema, timezone="UTC"))
        return spool_stream(reading, folder, schema, split=ARRAY_SPLIT)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows of the planned files; the line is the number of the row."""
        return spool_batch(reading, batch, self._schema(reading), split=ARRAY_SPLIT)

    @property
    def positioned(self) -> bool:
        """True: a row has its number; an array is one split."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """One split, with Spark's own offset."""
        return {ARRAY_SPLIT: str(batch.end)}

    def check(self, start: Start) -> Known:
        """Check that the rows are those with which the generation began."""
        content = repr([sorted(row.items(), key=str) for row in self.rows])
        digest = {hashlib.sha256(content.encode()).hexdigest()[:16]: len(self.rows)}
        if start.known and start.known != digest:
            raise sealed_error(self.name, what="the rows of an array source are not those it began with")
        return digest

    def order(self) -> tuple[Column, Column, Column]:
        """In the order of the rows."""
        return spool_order()

    def _schema(self, reading: Reading) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return reading.schema_of(lambda: from_arrow_schema(infer_schema(self.rows, step=self.name)))
