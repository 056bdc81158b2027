"""The durable shuffle in a Delta table: a commit for each batch of the upstream query, read by the downstream query."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from rs_assets.connectors.delta.log.versions import ALL_FILES, next_version, only_adds
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.delta.table_rules import nullable
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import SinkWriter
from rs_assets.connectors.source import Known, Start, Watch, Watching
from rs_assets.errors import SinkError
from rs_assets.operators.shuffle.once import OnceWriter
from rs_assets.records.columns import LINE, OFFSET, PREFIX, RAW, REASON, SPLIT
from rs_assets.records.poison import exact_text
from rs_assets.records.schema import quoted

# The upstream query's batch of a row: rows are purged by it.
BATCH = f"{PREFIX}batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShuffle:
    """A Delta table at `path`, which belongs to one shuffle of one pipeline."""

    name: str
    path: Path

    def begin(self, schema: StructType) -> None:
        """Create an empty table; its change feed returns the rows of a range of versions again."""
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(self.path),
            schema=_columns(schema),
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def resume(self) -> None:
        """Nothing to do: readers see a commit at once."""

    def untouched(self, schema: StructType | None = None) -> bool:
        """Whether the table has its first version only."""
        table = open_table(str(self.path))
        if table is None or table.version() > 0:
            return False
        return schema is None or table.schema() == _columns(schema)

    def check(self, schema: StructType, *, step: str) -> None:
        """Nothing to check: a table holds rows of every type that a Delta sink takes."""

    def whole(self) -> bool:
        """Whether no row was deleted."""
        table = open_table(str(self.path))
        return table is not None and all(entry.get("operation") != "DELETE" for entry in table.history())

    def writer(self, name: str) -> SinkWriter:
        """Appends batches with delta-rs, with marker and fence."""
        inner = DeltaWriter(name=name, path=str(self.path))
        return OnceWriter(inner, lambda batch, mark: batch.withColumn(BATCH, F.lit(mark.batch_id).cast("bigint")))

    def stream(self, spark: SparkSession, schema: StructType, *, name: str) -> DataFrame:
        """The rows of all commits from the first; purges are not reported. A batch never ends within a commit."""
        reader = spark.readStream.name(name).format("delta").option("maxFilesPerTrigger", ALL_FILES)
        reader = reader.option("startingVersion", 0)
        rows = reader.option("skipChangeCommits", "true").load(str(self.path))
        return rows.select(*_fields(schema), F.lit(None).cast("string").alias(REASON))

    def batch(self, spark: SparkSession, schema: StructType, *, start: str | None, end: str) -> DataFrame:
        """The rows by the table's change feed."""
        first, behind = (0 if start is None else next_version(start)), next_version(end)
        if behind <= first:
            empty = StructType([*schema.fields, StructField("_commit_version", LongType())])
            rows = spark.createDataFrame([], empty)
        else:
            feed = spark.read.format("delta").option("readChangeFeed", "true")
            feed = feed.option("startingVersion", first).option("endingVersion", behind - 1)
            rows = feed.load(str(self.path)).filter("_change_type = 'insert'")
        return rows.select(
            *_fields(schema),
            F.lit(None).cast("string").alias(REASON),
            F.lit(self.name).alias(SPLIT),
            F.col("_commit_version").alias(LINE),
            F.lit(None).cast("bigint").alias(OFFSET),
            exact_text(schema.names).alias(RAW),
        )

    def await_visible(self) -> None:
        """Nothing to wait for: readers see a commit at once."""

    def has_more(self, offset: str | None) -> bool:
        """Whether a version after the offset has rows that were not read; purges have none."""
        table = open_table(str(self.path))
        first = 0 if offset is None else next_version(offset)
        return table is None or any(only_adds(str(self.path), each) for each in range(first, table.version() + 1))

    def splits(self, offset: str) -> Mapping[str, str]:
        """The table is one split; its offset is the next version to read."""
        return {self.name: str(next_version(offset))}

    def check_reader(self, source: str, start: Start) -> Known:  # noqa: ARG002
        """Nothing: Delta's own log shows losses."""
        return start.known

    def watch(self, source: str, watching: Watching) -> Watch:  # noqa: ARG002
        """Nothing to guard."""
        return Watch()

    def purge(self, offsets: list[str]) -> None:
        """Delete the rows of the batches whose commits all readers have passed."""
        table = open_table(str(self.path))
        behind = min((next_version(offset) for offset in offsets), default=0)
        if table is None or behind <= 1:
            return
        read = [
            int(entry["rs.batch_id"])
            for entry in table.history()
            if "rs.batch_id" in entry and entry["version"] < behind
        ]
        try:
            if read and table.count():
                table.delete(f"{quoted(BATCH)} <= {max(read)}")
        except DeltaError as error:
            raise SinkError(f"the rows of a shuffle could not be purged: {error}", table=self.path) from error


def _columns(schema: StructType) -> Schema:
    """The columns of the table for rows of `schema`."""
    columns = StructType([*schema.fields, StructField(BATCH, LongType())])
    return Schema.from_arrow(nullable(to_arrow_schema(columns, timezone="UTC")))


def _fields(schema: StructType) -> list[str]:
    return [quoted(field.name) for field in schema.fields]
