"""The source that reads a channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.memory.channel import MEMORY_SPLIT, MemoryChannel, checked_channel
from rs_assets.connectors.memory.spooled import spool_batch, spool_order, spool_stream
from rs_assets.connectors.source import Known, Positions, Reading, Start, sealed_error
from rs_assets.records.rows import infer_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReader:
    """Exactly once as long as the channel lives: its rows are in a folder that is removed with it."""

    name: str
    channel: MemoryChannel = field(repr=False)

    def stream(self, reading: Reading) -> DataFrame:
        """The rows already put and those to come; SchemaError for a channel without a schema."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = self._schema(reading)
        folder = self.channel.bind(to_arrow_schema(schema, timezone="UTC"))
        return spool_stream(reading, folder, schema, split=MEMORY_SPLIT)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows of the planned files; the line is the number of the row."""
        return spool_batch(reading, batch, self._schema(reading), split=MEMORY_SPLIT)

    @property
    def positioned(self) -> bool:
        """True: a row has its channel, which is one split."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """One split, with Spark's own offset."""
        return {MEMORY_SPLIT: str(batch.end)}

    def check(self, start: Start) -> Known:
        """Refuse rows that were put after the end: they would never be read."""
        if start.sealed and self.channel.has_more({file.local for file in start.logs[0].files()}):
            raise sealed_error(self.name)
        return start.known

    def order(self) -> tuple[Column, Column, Column]:
        """In the order in which the rows were put."""
        return spool_order()

    def _schema(self, reading: Reading) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        checked_channel(self.channel, step=self.name)
        return reading.schema_of(lambda: from_arrow_schema(infer_schema((), step=self.name)))
