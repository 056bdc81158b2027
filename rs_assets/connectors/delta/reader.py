"""The reader of a Delta table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.delta.log.store import delta_table, is_table, rows_at
from rs_assets.connectors.delta.log.versions import (
    ALL_FILES,
    Needed,
    check_kept,
    check_read,
    check_same,
    files_added,
    files_removed,
    needed_of,
    next_version,
    versions_of,
)
from rs_assets.connectors.delta.nodes import FEED
from rs_assets.connectors.source import BEGIN_ANEW, Ends, Known, Positions, Reading, Start, sealed_error
from rs_assets.errors import ConfigurationError, SchemaError, SourceReadError
from rs_assets.records.calendar import judged
from rs_assets.records.columns import LINE, OFFSET, RAW, SPLIT
from rs_assets.records.poison import exact_text
from rs_assets.spark.object_store import prepare_reading

# The additional columns of the change feed.
KIND, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
CHANGE_FIELDS = (
    StructField(KIND, StringType()),
    StructField(VERSION, LongType()),
    StructField(TIME, TimestampType()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaReader:
    """Exactly once: a batch is a range of whole versions of the table at `path`, read by Delta's own source.

    Without `starting` the first batch is all rows at that time; with `changes` reading begins at version 0.
    """

    name: str
    path: str
    changes: bool = False
    starting: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The rows of each version, once; SchemaError if the table lacks a declared field."""
        schema = self._schema(reading)
        reader = reading.spark.readStream.name(reading.name).format("delta").option("maxFilesPerTrigger", ALL_FILES)
        if self.changes:
            reader = reader.option("readChangeFeed", "true")
        needed = self._needed(SourceLog(CheckpointLog(reading.folder / "checkpoint"), reading.name))
        if needed is not None and self._first is not None:
            # Delta looks for this version at each start: the first one of all would be cleaned up some day.
            reader = reader.option("startingVersion", needed.first)
        return judged(reader.load(self.path), schema)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows of the versions of a batch; the line is the version of a row."""
        schema, spark = self._schema(reading), reading.spark
        versions = versions_of(batch, self._first or 0)
        if not versions:
            return self._addressed(spark.createDataFrame([], schema), schema, version=-1)
        check_read(batch, self._table(), self.path)
        if self.changes:
            feed = spark.read.format("delta").option("readChangeFeed", "true")
            feed = feed.option("startingVersion", versions[0]).option("endingVersion", versions[-1])
            return self._addressed(feed.load(self.path), schema, version=None)
        if batch.start is None and self._first is None:
            return self._addressed(rows_at(spark, self.path, versions[-1]), schema, version=versions[-1])
        parts = [self._added(spark, schema, version) for version in versions]
        return reduce(DataFrame.unionByName, parts)

    def splits(self, batch: SourceBatch) -> Positions:
        """The table is one split; its offset is the next version to read."""
        return {Path(self.path).name: str(next_version(str(batch.end)))}

    def check(self, start: Start) -> Known:
        """Check that the table exists, is the one that was read before, and has a change feed if one is to be read.

        SealedError if it has changed since the end of a sealed generation.
        """
        table = self._table()
        for log in start.logs:
            check_same(log, table, self.path)
            self._check_log(log, table.version())
            if start.sealed and self._has_changed(log, table.version()):
                raise sealed_error(self.name, table=self.path)
        if self.changes and table.metadata().configuration.get(FEED) != "true":
            raise SourceReadError(
                "the table has no change feed",
                remedy=f"switch it on: ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ({FEED} = true);"
                " then read from the next version: starting_version=n",
                source=self.name,
            )
        return start.known

    def _has_changed(self, log: SourceLog, newest: int) -> bool:
        """Whether a version that was not read adds rows, or has other changes that are read; a compaction has none."""
        first = next_version(log.committed) if log.committed is not None else self._first or 0
        kinds = (files_added, files_removed) if self.changes else (files_added,)
        return any(files(self.path, version) for version in range(first, newest + 1) for files in kinds)

    def _check_log(self, log: SourceLog, newest: int) -> None:
        """DataLossError for versions that are gone from the log; SourceReadError if the first one is still to come."""
        needed = self._needed(log)
        if needed is None:
            return
        if log.committed is None and needed.first > newest:
            raise SourceReadError(
                f"the table has no version {needed.first}: it ends with version {newest}",
                remedy=f"start when it has one, or begin with an earlier one: starting_version={newest}",
                source=self.name,
                table=self.path,
            )
        again = f"{BEGIN_ANEW}, " * (log.committed is not None)
        how = (
            f"{BEGIN_ANEW}, which reads all rows of the existing table"
            if self._first is None
            else f"{again}starting_version={{oldest}}, which leaves out what came before"
        )
        check_kept(self.path, needed, newest, otherwise=how, source=self.name)

    def _needed(self, log: SourceLog) -> Needed | None:
        return needed_of(log, self._first, changes=self.changes)

    def has_more(self, log: SourceLog) -> bool:
        """Whether there is a version that was not read to its end."""
        offset = log.committed
        return offset is None or next_version(offset) <= self._table().version()

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  needs no remote call
        """The version of the next commit; 0 while there is no table."""
        return {Path(self.path).name: self._table().version() + 1 if is_table(self.path) else 0}

    @property
    def _first(self) -> int | None:
        """The first version to read; None: all rows of the newest version, whatever versions they came with."""
        return 0 if self.changes and self.starting is None else self.starting

    def _table(self) -> DeltaTable:
        if not is_table(self.path):
            raise ConfigurationError(
                f"there is no Delta table at {self.path}",
                remedy="run the pipeline that writes it first, or check the name",
                step=self.name,
            )
        try:
            return delta_table(self.path)
        except DeltaError as error:
            raise SourceReadError(
                f"the table cannot be read: {str(error)[:200]}",
                remedy=f"if files of its _delta_log are gone, put them back, or write the table again and {BEGIN_ANEW}",
                source=self.name,
                table=self.path,
            ) from error

    def _schema(self, reading: Reading) -> StructType:
        """The declared schema, or that of the table at the first start, each with the columns of the change feed."""
        self._table()
        prepare_reading(reading.spark, self.path)
        there = reading.spark.read.format("delta").load(self.path).schema
        extra = CHANGE_FIELDS if self.changes else ()
        wanted = reading.schema_of(lambda: StructType([*there.fields, *extra]))
        known = {field.name: field.dataType.simpleString() for field in (*there.fields, *extra)}
        fields = [*wanted.fields, *(field for field in extra if field.name not in wanted.names)]
        for field in fields:
            found = known.get(field.name)
            if found != field.dataType.simpleString():
                what = f"has no column {field.name!r}" if found is None else f"has {field.name!r} as {found}"
                columns = ", ".join(f"{name} {kind}" for name, kind in known.items())
                raise SchemaError(
                    f"step {self.name!r}: the table {what}",
                    remedy=f"declare the schema as the table has it: {columns}; or, if it is inferred, {BEGIN_ANEW}",
                    step=self.name,
                )
        return StructType(fields)

    def _added(self, spark: SparkSession, schema: StructType, version: int) -> DataFrame:
        names = files_added(self.path, version)
        rows = rows_at(spark, self.path, version).filter(F.col("_metadata.file_name").isin(names))
        return self._addressed(rows, schema, version=version)

    def _addressed(self, rows: DataFrame, schema: StructType, *, version: int | None) -> DataFrame:
        """The rows with their ADDRESS; without `version` each row has its own."""
        address = {
            SPLIT: F.lit(Path(self.path).name),
            LINE: F.col(VERSION) if version is None else F.lit(version).cast("bigint"),
            OFFSET: F.lit(None).cast("bigint"),
            RAW: exact_text(schema.names),
        }
        return judged(rows, schema, address)
