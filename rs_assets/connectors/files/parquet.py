"""The source of Parquet files that no longer change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.files.parquet_columns import check_columns, fields_of, schema_of
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.files.whole.counting import FileWatch
from rs_assets.connectors.files.whole.line_format import file_sizes, file_states
from rs_assets.connectors.files.whole.modified_files import check_all_read, check_as_read, check_whole, has_unread
from rs_assets.connectors.files.whole.watch import FilesWatch
from rs_assets.connectors.source import Ends, Known, Positions, Reading, Start, Watch, Watching
from rs_assets.records.calendar import judged
from rs_assets.records.columns import LINE, OFFSET, RAW, SPLIT
from rs_assets.records.poison import exact_text

# The line format for the guards of whole files: no header and no lines.
FORM = LineFormat("parquet", header=False)
# A limit that no file reaches: there are no lines to count.
NO_LINES = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader:
    """Exactly once: Spark plans whole files, which must not change afterwards."""

    name: str
    path: str
    schema: str | None = None
    max_files_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The rows of each file, once; ConfigurationError if there is nothing at the path."""
        schema = self._schema(reading)
        files = native.file_stream(
            reading.spark, name=reading.name, path=self.path, max_files_per_batch=self.max_files_per_batch
        )
        return judged(files.schema(schema).parquet(native.as_glob(self.path)), schema)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows of the planned files; the line is the number of the row in its file, from 1."""
        schema = self._schema(reading)
        files = [str(file.local) for file in batch.files]
        if not files:
            return judged(reading.spark.createDataFrame([], schema), schema, _address(schema, F.lit(""), F.lit(0)))
        reader = reading.spark.read.schema(schema).option("recursiveFileLookup", value=True)
        place = _address(schema, F.col("_metadata.file_path"), F.col("_metadata.row_index") + 1)
        return judged(reader.parquet(*map(native.as_glob, files)), schema, place)

    def splits(self, batch: SourceBatch) -> Positions:
        """A file is a split of the batch that reads it; its offset is its size."""
        sizes = {str(f.local): f.local.stat().st_size if f.local.exists() else 0 for f in batch.files}
        return {file: orjson.dumps({"bytes": size}).decode() for file, size in sizes.items()}

    def check(self, start: Start) -> Known:
        """Refuse files that have changed since they were read."""
        return check_whole(self.name, self.path, FORM, self.schema, start)

    def has_more(self, log: SourceLog) -> bool:
        """Whether there is a file that Spark has not planned."""
        return has_unread(self.path, log)

    def check_all_read(self, log: SourceLog, before_ms: int) -> None:
        """Refuse a file that Spark did not list."""
        check_all_read(self.name, self.path, log, before_ms)

    def verify(self, batch: SourceBatch, known: Known) -> None:
        """Refuse a file that has changed since the batch read it."""
        check_as_read(self.name, batch, known)

    def watch(self, watching: Watching) -> Watch:
        """Check that the files of a batch have the fields, and stay as they were planned."""
        return ParquetWatch(watching, self.schema)

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  needs no remote call
        """The sizes of the files."""
        return file_sizes(self.path)

    def states(self) -> Mapping[str, tuple[int, int]]:
        """The sizes and times of the files."""
        return file_states(self.path)

    def order(self) -> tuple[Column, Column, Column]:
        """By the time of the file, its path, and the part of it."""
        return native.file_order()

    def _schema(self, reading: Reading) -> StructType:
        return reading.schema_of(lambda: self._inferred(reading))

    def _inferred(self, reading: Reading) -> StructType:
        first = native.sample_file(self.path, step=self.name)
        schema_of(first)
        return reading.spark.read.parquet(native.as_glob(str(first))).schema


class ParquetWatch(FilesWatch):
    """Guards the files of each batch: Spark returns nulls for a column that a file lacks, and cuts numbers to fit."""

    __slots__ = ("_schema", "_watching")

    def __init__(self, watching: Watching, schema: str | None) -> None:
        super().__init__(self._files, watching)
        self._watching = watching
        self._schema = schema

    def planned(self, batch_id: int) -> None:
        """SourceReadError for a file that lacks one of the fields, has it as another type, or is not Parquet."""
        super().planned(batch_id)
        fields = fields_of(self._schema, self._watching.inferred())
        for file in self._watching.log.batch(batch_id).files:
            check_columns(file.local, fields)

    def _files(self, batch_id: int) -> FileWatch:
        files = self._watching.log.batch(batch_id).files
        return FileWatch(files, batch_id=batch_id, counted=False, form=FORM, cap=NO_LINES)


def _address(schema: StructType, file: Column, row: Column) -> dict[str, Column]:
    return {SPLIT: file, LINE: row.cast("bigint"), OFFSET: F.lit(None).cast("bigint"), RAW: exact_text(schema.names)}
