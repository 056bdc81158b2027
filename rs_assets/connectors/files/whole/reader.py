"""The source of whole text files that no longer change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import orjson
from pyspark.sql import Column, DataFrame

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.files.header import columns_in_order
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.files.whole.counting import FileWatch
from rs_assets.connectors.files.whole.json_lines import json_lines, json_lines_of
from rs_assets.connectors.files.whole.line_format import file_sizes, file_states, form_with_schema, read_files
from rs_assets.connectors.files.whole.modified_files import check_all_read, check_as_read, check_whole, has_unread
from rs_assets.connectors.files.whole.watch import FilesWatch
from rs_assets.connectors.source import Ends, Known, Positions, Reading, Start, Watch, Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReader:
    """Exactly once: Spark plans whole files, which must not change afterwards.

    `in_parser`: Spark's own parser reads CSV; else each line is parsed separately.
    """

    name: str
    path: str
    form: LineFormat
    schema: str | None = None
    in_parser: bool = True
    max_files_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The records of each file, once; ConfigurationError if there is nothing at the path."""
        form, most = self._form(reading), self.max_files_per_batch
        if form.format == "json":
            files = native.file_stream(reading.spark, name=reading.name, path=self.path, max_files_per_batch=most)
            return json_lines(files, native.as_glob(self.path), form, reading)
        return native.read_stream(
            reading.spark,
            name=reading.name,
            path=self.path,
            form=form,
            in_parser=self._in_parser(),
            max_files_per_batch=most,
            ordered=reading.ordered,
        )

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The records of the planned files, read line by line; JSON as the stream reads it if no address is needed."""
        form, files = self._form(reading), [str(file.local) for file in batch.files]
        as_streamed = form.format == "json" and not reading.addressed
        # That a file is gone is said by the reader of lines.
        if as_streamed and files and all(file.local.exists() for file in batch.files):
            return json_lines_of(reading.spark, files, form, name=reading.name, bad_records=reading.bad_records)
        return read_files(reading.spark, form, files)

    def splits(self, batch: SourceBatch) -> Positions:
        """A file is a split of the batch that reads it; its offset is its size."""
        sizes = {str(f.local): f.local.stat().st_size if f.local.exists() else 0 for f in batch.files}
        return {file: orjson.dumps({"bytes": size}).decode() for file, size in sizes.items()}

    def check(self, start: Start) -> Known:
        """Refuse files that have changed since they were read."""
        return check_whole(self.name, self.path, self.form, self.schema, start)

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
        """Check that the files of a batch stay as they were planned."""
        in_parser = self._in_parser()

        def over(batch_id: int) -> FileWatch:
            return FileWatch(
                watching.log.batch(batch_id).files,
                batch_id=batch_id,
                counted=in_parser,
                form=self.form,
                cap=watching.max_line_bytes,
                schema=self.schema,
            )

        return FilesWatch(over, watching)

    def _in_parser(self) -> bool:
        """Whether Spark's parser reads the existing files: it maps the columns of CSV by position."""
        if not (self.in_parser and self.form.format == "csv" and self.form.header):
            return self.in_parser
        return all(
            columns_in_order(file, self.schema, delimiter=self.form.delimiter) for file in existing_files(self.path)
        )

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  needs no remote call
        """The sizes of the files."""
        return file_sizes(self.path)

    def states(self) -> Mapping[str, tuple[int, int]]:
        """The sizes and times of the files."""
        return file_states(self.path)

    def order(self) -> tuple[Column, Column, Column]:
        """By the time of the file, its path, and the part of it."""
        by_line = self.form.format == "csv" and not self._in_parser()
        return native.line_order() if by_line else native.file_order()

    def _form(self, reading: Reading) -> LineFormat:
        return form_with_schema(self.form, reading, step=self.name, path=self.path)
