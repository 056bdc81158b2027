"""The source of growing files, which are followed line by line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import orjson
from pyspark.sql import DataFrame

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.files.codecs import codec_of
from rs_assets.connectors.files.lines.offsets import (
    Ended,
    Offsets,
    dump_offsets,
    load_offsets,
    ranges_between,
    splits_of,
)
from rs_assets.connectors.files.lines.planner import FinalLine, Planner
from rs_assets.connectors.files.lines.spark_source import FORMAT, register
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.parse import LineFormat, parse_lines
from rs_assets.connectors.files.whole.line_format import file_sizes, file_states, form_with_schema, read_ranges
from rs_assets.connectors.files.whole.modified_files import check_columns, check_followed
from rs_assets.connectors.source import Ends, Known, Lag, Positions, Reading, Start, Watch, Watching
from rs_assets.errors import BadRecordError, RsError, SourceReadError


class LinesWatch(Watch):
    """A file with a bad record can be corrected, and is then planned again."""

    __slots__ = ()

    def plans_again(self, failure: RsError) -> bool | None:
        """True after a bad record."""
        return True if isinstance(failure, BadRecordError) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesReader:
    """Exactly once: offsets are bytes and lines of each file, and a batch is a range of them."""

    name: str
    path: str
    form: LineFormat
    schema: str | None = None
    max_rows_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The records of complete lines, as they are appended."""
        form = self._form(reading)
        register(reading.spark)
        reader = reading.spark.readStream.name(reading.name).format(FORMAT).option("path", self.path)
        reader = reader.options(**form.line_options)
        if self.max_rows_per_batch:
            reader = reader.option("max_rows_per_batch", self.max_rows_per_batch)
        return parse_lines(reader.load(), form, addressed=reading.positioned)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The records between the offsets of a batch."""
        end = batch.end
        return read_ranges(
            reading.spark, self._form(reading), ranges_between(batch.start, end) if end is not None else []
        )

    @property
    def positioned(self) -> bool:
        """True: a line has its file."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """A file with a line is a split as long as it exists; its offset is the next byte and line."""
        there = {n: s for n, s in load_offsets(batch.end).items() if s.ended not in (Ended.GONE, Ended.REPLACED)}
        if not all(split.byte for split in there.values()):
            waiting = self._waiting(there)
            there = {name: split for name, split in there.items() if split.byte or name in waiting}
        return {name: orjson.dumps({"byte": s.byte, "line": s.line}).decode() for name, s in there.items()}

    def unread(self, offset: str) -> Collection[str]:
        """Files with a complete line after the offset, if there is a limit: it reads one file after another."""
        return self._waiting(load_offsets(offset))

    def _waiting(self, offsets: Offsets) -> Collection[str]:
        return Planner(self.path).unread(offsets) if self.max_rows_per_batch else ()

    def check(self, start: Start) -> Known:
        """Refuse headers that do not fit, and files that grew after the windows over them were ended."""
        for file in existing_files(self.path, follow=True):
            check_columns(self.form, self.schema, file)
        check_followed(self.name, self.path, start)
        return start.known

    def check_ended(self, log: SourceLog) -> None:
        """Refuse a last line without a newline."""
        complete = Planner(self.path).plan(load_offsets(log.committed))
        for name, split in Planner(self.path, final_line=FinalLine.DELIVER).plan(complete).items():
            if name not in complete or split.byte > complete[name].byte:
                raise SourceReadError(
                    "the last line of a followed file has no newline, so it was not read, and the input was to end",
                    remedy="end it by a newline, or remove it; then run again",
                    file=split.file,
                    line=split.line,
                )

    def watch(self, watching: Watching) -> Watch:  # noqa: ARG002
        """Tasks check by themselves whether a file is still what was planned."""
        return LinesWatch()

    def has_more(self, log: SourceLog) -> bool:
        """Whether there is a complete line more, or a file has ended: as Spark's source plans it."""
        start = load_offsets(log.committed)
        return dump_offsets(Planner(self.path).plan(start, max_rows=1)) != dump_offsets(start)

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  needs no remote call
        """The sizes of the files."""
        return file_sizes(self.path, follow=True)

    def states(self) -> Mapping[str, tuple[int, int]]:
        """The sizes and times of the files."""
        return file_states(self.path, follow=True)

    def size(self) -> int:
        """The sizes of all files."""
        return sum(file_sizes(self.path, follow=True).values())

    def done(self, offset: str) -> int:
        """The bytes of all splits."""
        return sum(split.byte for split in splits_of(offset))

    def lag(self, offset: str | None, patience: timedelta) -> Lag:  # noqa: ARG002
        """The number of unread bytes; archives do not count."""
        start = load_offsets(offset)
        end = Planner(self.path).reach(start)
        return _bytes_between(start, end)

    def between(self, start: str | None, end: str) -> Lag:
        """The bytes that were read, also of files that are gone; archives do not count."""
        return _bytes_between(load_offsets(start), load_offsets(end))

    def _form(self, reading: Reading) -> LineFormat:
        return form_with_schema(self.form, reading, step=self.name, path=self.path)


def _bytes_between(start: Offsets, end: Offsets) -> Lag:
    plain = {name: split.byte for name, split in end.items() if not codec_of(Path(split.file))}
    return Lag(bytes=sum(byte - (start[name].byte if name in start else 0) for name, byte in plain.items()))
