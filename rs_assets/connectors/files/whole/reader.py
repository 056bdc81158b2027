"""The source of whole text files that no longer change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import orjson
from pyspark.sql import Column, DataFrame

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.files.header import columns_in_order
from rs_assets.connectors.files.listing import existing_files, files_below
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.files.whole.counting import FileWatch
from rs_assets.connectors.files.whole.fast_check import BLOCK_BYTES, PlainLines
from rs_assets.connectors.files.whole.line_format import file_sizes, form_with_schema, read_ranges
from rs_assets.connectors.files.whole.modified_files import check_all_read, check_whole
from rs_assets.connectors.files.whole.plain_regex import Shape
from rs_assets.connectors.files.whole.watch import FilesWatch
from rs_assets.connectors.source import Ends, Known, Positions, Reading, Start, Watch, Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReader:
    """Exactly once: Spark plans whole files, which must not change afterwards.

    `in_parser`: Spark's own parser reads them; else each line is parsed separately.
    """

    name: str
    path: str
    form: LineFormat
    schema: str | None = None
    in_parser: bool = True
    max_files_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The records of each file, once; ConfigurationError if there is nothing at the path."""
        return native.read_stream(
            reading.spark,
            name=reading.name,
            path=self.path,
            form=self._form(reading),
            in_parser=self._in_parser(),
            pruned=reading.pruned,
            max_files_per_batch=self.max_files_per_batch,
        )

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The records of the planned files, read line by line."""
        whole = [{"file": str(f.local), "start_line": 1, "start_byte": 0, "end_byte": None} for f in batch.files]
        return read_ranges(reading, self._form(reading), whole)

    def splits(self, batch: SourceBatch) -> Positions:
        """A file is a split of the batch that reads it; its offset is its size."""
        sizes = {str(f.local): f.local.stat().st_size if f.local.exists() else 0 for f in batch.files}
        return {file: orjson.dumps({"bytes": size}).decode() for file, size in sizes.items()}

    def check(self, start: Start) -> Known:
        """Refuse files that have changed since they were read."""
        return check_whole(self.name, self.path, self.form, self.schema, start)

    def check_all_read(self, log: SourceLog, before_ms: int) -> None:
        """Refuse a file that Spark did not list."""
        check_all_read(self.name, self.path, log, before_ms)

    def watch(self, watching: Watching) -> Watch:
        """Check that the files of a batch stay as they were planned."""
        in_parser = self._in_parser()

        def over(batch_id: int, plain: PlainLines | None) -> FileWatch:
            return FileWatch(
                watching.log.batch(batch_id).files,
                batch_id=batch_id,
                counted=in_parser,
                form=self.form,
                cap=watching.max_line_bytes,
                schema=self.schema,
                plain=plain,
            )

        return FilesWatch(over, watching, self._plain(watching.max_line_bytes) if watching.pruned else None)

    def prunes(self, max_line_bytes: int) -> bool:
        """Whether the first lines are plain JSON of a declared schema, so that all lines may be."""
        plain = self._plain(max_line_bytes)
        if plain is None:
            return False
        try:
            first = next((f for f in files_below(self.path) if f.stat().st_size), None)
        except OSError:
            # It disappeared during the check; the batch that reads it reports that.
            return False
        return first is None or plain.samples(first)

    def _in_parser(self) -> bool:
        """Whether Spark's parser reads the existing files: it maps the columns of CSV by position."""
        if not (self.in_parser and self.form.format == "csv" and self.form.header):
            return self.in_parser
        return all(
            columns_in_order(file, self.schema, delimiter=self.form.delimiter) for file in existing_files(self.path)
        )

    def _plain(self, max_line_bytes: int) -> PlainLines | None:
        """The checker for plain lines; None if there is none. It rejects lines that are longer than a block."""
        if not self.in_parser or self.form.format != "json" or self.form.time_format or max_line_bytes < BLOCK_BYTES:
            return None
        shape = Shape.of(self.schema)
        return PlainLines(shape) if shape is not None else None

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  needs no remote call
        """The sizes of the files."""
        return file_sizes(self.path)

    def order(self) -> tuple[Column, Column, Column]:
        """By the time of the file, its path, and the part of it."""
        return native.file_order()

    def _form(self, reading: Reading) -> LineFormat:
        return form_with_schema(self.form, reading, step=self.name, path=self.path)
