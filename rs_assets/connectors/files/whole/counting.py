"""Counts the records of whole files in parallel with Spark, and guards that the files do not change after planning."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rs_assets.checkpoint.log import PlannedFile
from rs_assets.common.files import modified_ms
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.files.header import check_header, columns_in_order
from rs_assets.connectors.files.lines.files import opened
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.connectors.files.parse import UNBALANCED, LineFormat
from rs_assets.connectors.files.whole.fast_check import PlainLines, parts_of
from rs_assets.connectors.files.whole.known_files import FileFacts
from rs_assets.connectors.files.whole.spark_files import check_name
from rs_assets.errors import BadRecordError, DataLossError, SourceReadError

# Large enough for few system calls, small enough for the processor's second-level cache.
BLOCK_BYTES = 1 << 18
NEWLINE, SPACE, QUOTE, BRACKET = 10, 32, 34, 91
# A line that begins with a bracket, ignoring white space.
ARRAY_LINE = re.compile(rb"\n\s*(?:\xef\xbb\xbf)?\[")


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of `records`, and the number of other lines `beyond` the length limit.

    `arrays`: a line begins like an array; `unbalanced`: a line has an odd number of quotes.
    """

    records: int
    beyond: int = 0
    arrays: bool = False
    unbalanced: bool = False


def count_records(path: Path, *, cap: int = MAX_LINE_BYTES, quotes: bool = True) -> Counted:
    """The number of non-blank lines of a file: the records for Spark's line readers.

    Works on blocks, not lines: about 2 GB/s, cheap compared with the parsing that runs at the same time. Without
    `quotes` quotes are not checked, which takes several times as long in JSON.
    """
    lines = blank_lines = 0
    lengths, balance = _Lengths(cap), _Quotes()
    last = NEWLINE
    open_line_blank = True
    arrays = False
    with opened(path) as file:
        while block := file.read(BLOCK_BYTES):
            data = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(data == NEWLINE)
            lines += len(ends)
            begins = ends[: len(ends) - (block[-1] == NEWLINE)] + 1
            firsts = data[np.concatenate(([0], begins)) if last == NEWLINE else begins]
            # A blank line begins with white space or is a newline: only then look closer.
            if open_line_blank or bool(np.any(firsts <= SPACE)):
                counted, open_line_blank = _blank(block, open_line_blank=open_line_blank if last != NEWLINE else True)
                blank_lines += counted
                arrays = arrays or bool(ARRAY_LINE.search(block if last != NEWLINE else b"\n" + block))
            else:
                open_line_blank = False
                arrays = arrays or bool(np.any(firsts == BRACKET))
            last = block[-1]
            lengths.feed(block)
            if quotes:
                balance.feed(data, ends)
    if last != NEWLINE and not open_line_blank:
        lines += 1
    beyond = lengths.end()
    return Counted(lines - blank_lines - beyond, beyond, arrays, balance.end())


class _Quotes:
    """Finds a line with an odd number of quotes."""

    __slots__ = ("open_line", "unbalanced")

    def __init__(self) -> None:
        self.unbalanced = False
        self.open_line = 0

    def feed(self, data: np.ndarray, ends: np.ndarray) -> None:
        """Process the next block, whose newlines are at `ends`."""
        places = np.flatnonzero(data == QUOTE)
        if not len(places) and not (self.open_line and len(ends)):
            return
        # There are more quotes than lines: count the quotes before each line end, then take differences.
        counts = np.diff(np.searchsorted(places, ends), prepend=0, append=len(places))
        counts[0] += self.open_line
        self.unbalanced = self.unbalanced or bool(np.any(counts[:-1] & 1))
        self.open_line = int(counts[-1])

    def end(self) -> bool:
        """Whether there was one; a last line has no newline."""
        return self.unbalanced or bool(self.open_line & 1)


class _Lengths:
    """Counts the lines that Spark's reader skips because they have more than `cap` bytes."""

    __slots__ = ("beyond", "cap", "open_bytes")

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.beyond = self.open_bytes = 0

    def feed(self, block: bytes) -> None:
        """Process the next block."""
        first = block.find(b"\n")
        if first < 0:
            self.open_bytes += len(block)
            return
        self.beyond += self.open_bytes + first > self.cap
        if len(block) > self.cap:
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE)
            self.beyond += int(np.count_nonzero(np.diff(ends) - 1 > self.cap))
        self.open_bytes = len(block) - 1 - block.rfind(b"\n")

    def end(self) -> int:
        """The count; a last line has no newline, so it may have one byte more."""
        return self.beyond + (self.open_bytes > self.cap + 1)


def _blank(block: bytes, *, open_line_blank: bool) -> tuple[int, bool]:
    """How many lines that end in `block` are blank, and whether the unfinished last line is blank so far."""
    pieces = block.split(b"\n")
    count = 0
    blank_so_far = open_line_blank
    for piece in pieces[:-1]:
        count += blank_so_far and not piece.strip()
        blank_so_far = True
    return count, blank_so_far and not pieces[-1].strip()


def _check_columns(file: Path, schema: str | None, form: LineFormat, *, in_parser: bool) -> None:
    """Raise SourceReadError for a header that the reader of the batch does not follow."""
    check_header(file, schema, header=form.header, delimiter=form.delimiter)
    in_order = columns_in_order(file, schema, delimiter=form.delimiter) if schema is not None else True
    if form.header and in_parser and not in_order:
        raise SourceReadError(
            "the columns of a new file are in another order than those of earlier files",
            remedy="start again: the new run reads all headers, and matches columns by name",
            file=file,
        )


class FileWatch:
    """The files that one batch planned: counted while Spark reads them, and checked for changes since planning."""

    _pool = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="rs-count")

    def __init__(
        self,
        files: Sequence[PlannedFile],
        *,
        batch_id: int,
        counted: bool,
        form: LineFormat,
        cap: int,
        schema: str | None = None,
        plain: PlainLines | None = None,
    ) -> None:
        self.files = files
        self.batch_id = batch_id
        self.form = form
        self.cap = cap
        self.counted = counted
        self.check()
        for file in files if form.format == "csv" else ():
            _check_columns(file.local, schema, form, in_parser=counted)
        # Each plain line is a record within the length limit.
        self._plain = [self._pool.submit(plain.count, p) for f in files for p in parts_of(f.local)] if plain else None
        self._count: Future[Counted] | None = (
            self._pool.submit(self._count_all) if plain is None and (counted or self._may_exceed()) else None
        )

    def check(self) -> None:
        """Raise DataLossError if a file is gone or was modified since Spark planned it."""
        for file in self.files:
            check_name(file.local)
            try:
                facts = file.local.stat()
            except FileNotFoundError as error:
                raise self._loss("is gone", file) from error
            if modified_ms(facts) != file.modified_ms:
                raise self._loss("has changed", file)

    def plain_rows(self) -> int | None:
        """The records in all files, if every line was checked and is plain; waits for that."""
        counts = [part.result() for part in self._plain] if self._plain is not None else [None]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def rows(self) -> int:
        """The records in all files; waits for the count.

        BadRecordError for a JSON array, which Spark would turn into no row or several, for a line of CSV with an
        unclosed quote, and for a line beyond the length limit.
        """
        count = self._count.result() if self._count else Counted(0)
        if count.beyond:
            raise BadRecordError(f"a record cannot be used: its line has more than {self.cap} bytes")
        if count.arrays and self.form.format == "json":
            raise BadRecordError("a record cannot be used: a JSON array is not a record")
        if count.unbalanced and self.form.format == "csv":
            raise BadRecordError(f"a record cannot be used: {UNBALANCED}")
        return count.records

    def check_records(self) -> None:
        """Raise for a record that Spark's reader misread or skipped; waits for the count."""
        if self.counted:
            self.rows()
        self.check_lengths()

    def check_lengths(self) -> None:
        """Raise SourceReadError for a line beyond the length limit; waits for the count.

        Spark's reader skips it, but reads the text after a split boundary within it as a line: the batch is wrong.
        """
        if self._count and self._count.result().beyond:
            raise SourceReadError(
                f"a line has more than {self.cap} bytes, too long for whole files",
                remedy="read the files with tail=True, which cuts such lines, or raise the cap",
                file=next((f.local for f in self.files if count_records(f.local, cap=self.cap).beyond), None),
                batch=self.batch_id,
            )

    def noted(self) -> dict[str, int]:
        """The value to store of each file, by path: the number of `FileFacts`."""
        return {str(f.local): FileFacts.read(f.local).number for f in self.files}

    def _count_all(self) -> Counted:
        csv = self.form.format == "csv"
        counts = [count_records(file.local, cap=self.cap, quotes=csv) for file in self.files]
        header = int(self.form.header and csv)
        return Counted(
            sum(max(c.records - header, 0) for c in counts),
            sum(c.beyond for c in counts),
            any(c.arrays for c in counts),
            any(c.unbalanced for c in counts),
        )

    def _may_exceed(self) -> bool:
        """Whether a file is large enough for a line beyond the length limit; always possible for archives."""
        return any(f.local.suffix in CODECS or f.local.stat().st_size > self.cap for f in self.files)

    def _loss(self, what: str, file: PlannedFile) -> DataLossError:
        return DataLossError(
            f"a file that was planned for batch {self.batch_id} {what} before it was read",
            remedy="put the file back as it was; for a file that grows use tail=True",
            file=file.local,
            batch=self.batch_id,
            range="the whole file",
        )
