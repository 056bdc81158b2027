"""Finds lines that Spark's readers skip or misread, and guards that files do not change after planning."""

from __future__ import annotations

import os
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
from rs_assets.connectors.files.parse import NUL, UNBALANCED, WITH_NUL, LineFormat
from rs_assets.connectors.files.whole.known_files import FileFacts
from rs_assets.connectors.files.whole.spark_files import check_name, check_whole_frames
from rs_assets.errors import BadRecordError, DataLossError, SourceReadError

# Large enough for few system calls, small enough for the processor's second-level cache.
BLOCK_BYTES = 1 << 18
NEWLINE, RETURN, QUOTE = 10, 13, 34


@dataclass(frozen=True, slots=True)
class Checked:
    """How many lines are `beyond` the length limit, and what lines have that Spark's reader of CSV misreads.

    `unbalanced`: an odd number of quotes; `returns`: a carriage return within the line; `nul`: a NUL and quotes.
    """

    beyond: int = 0
    unbalanced: bool = False
    returns: bool = False
    nul: bool = False


def check_lines(path: Path, *, cap: int = MAX_LINE_BYTES, quotes: bool = True) -> Checked:
    """Look at the lines of a file; without `quotes` only at their lengths.

    Works on blocks, not lines: about 2 GB/s, cheap compared with the parsing that runs at the same time.
    """
    lengths, balance, returns, nul = _Lengths(cap), _Quotes(), _Returns(), False
    with opened(path) as file:
        while block := file.read(BLOCK_BYTES):
            lengths.feed(block)
            if quotes:
                data = np.frombuffer(block, np.uint8)
                balance.feed(data, np.flatnonzero(data == NEWLINE))
                returns.feed(data)
                nul = nul or NUL.encode() in block
    beyond = lengths.end()
    return Checked(beyond, balance.end(), returns.end(), nul and not beyond and _has_nul_and_quotes(path))


def _has_nul_and_quotes(path: Path) -> bool:
    """Whether one line has both; files with a NUL are rare, so they are read once more."""
    with opened(path) as file:
        return any(NUL.encode() in line and b'"' in line for line in file)


def too_long(cap: int, **facts: object) -> SourceReadError:
    """The error for a line of more than `cap` bytes, with `facts` such as its file."""
    return SourceReadError(
        f"a line has more than {cap} bytes, too long for whole files",
        remedy="read the files with tail=True, which cuts such lines, or raise the cap",
        **facts,
    )


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


class _Returns:
    """Finds a carriage return within a line, or after a last one: Spark's reader of CSV ends a record there."""

    __slots__ = ("found", "last")

    def __init__(self) -> None:
        self.found = self.last = False

    def feed(self, data: np.ndarray) -> None:
        """Process the next block."""
        places = np.flatnonzero(data == RETURN)
        within = self.last and data[0] != NEWLINE
        self.last = bool(len(places) and places[-1] == len(data) - 1)
        inner = places[:-1] if self.last else places
        self.found = bool(self.found or within or np.any(data[inner + 1] != NEWLINE))

    def end(self) -> bool:
        """Whether there was one."""
        return self.found or self.last


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

    _pool = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="rs-lines")

    def __init__(
        self,
        files: Sequence[PlannedFile],
        *,
        batch_id: int,
        counted: bool,
        form: LineFormat,
        cap: int,
        schema: str | None = None,
    ) -> None:
        self.files = files
        self.batch_id = batch_id
        self.form = form
        self.cap = cap
        self.counted = counted
        self.check()
        for file in files:
            check_whole_frames(file.local)
        for file in files if form.format == "csv" else ():
            _check_columns(file.local, schema, form, in_parser=counted)
        # The reader of JSON finds such lines by itself.
        lines = form.format != "json" and (counted or self._may_exceed())
        self._checked: Future[Checked] | None = self._pool.submit(self._check_all) if lines else None

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

    def check_records(self) -> None:
        """Raise for a record that Spark's reader misread or skipped; waits for the check.

        BadRecordError for a line with an unclosed quote of CSV, and for one beyond the length limit.
        """
        if self.counted:
            found = self._checked.result() if self._checked else Checked()
            if found.beyond:
                raise BadRecordError(f"a record cannot be used: its line has more than {self.cap} bytes")
            if found.unbalanced and self.form.format == "csv":
                raise BadRecordError(f"a record cannot be used: {UNBALANCED}")
            if found.nul and self.form.format == "csv":
                raise BadRecordError(f"a record cannot be used: {WITH_NUL}")
            if found.returns:
                raise self._with_returns()
        self.check_lengths()

    def check_lengths(self) -> None:
        """Raise SourceReadError for a line beyond the length limit; waits for the check.

        Spark's reader skips it, but reads the text after a split boundary within it as a line: the batch is wrong.
        """
        if self._checked and self._checked.result().beyond:
            file = next((f.local for f in self.files if self._look(f).beyond), None)
            raise too_long(self.cap, file=file, batch=self.batch_id)

    def _with_returns(self) -> SourceReadError:
        return SourceReadError(
            "a line has a carriage return within it, and would be read as two records",
            remedy="end lines by \\n or \\r\\n; or read the files with bad_records='dead_letter', which end at \\n",
            file=next((f.local for f in self.files if self._look(f).returns), None),
            batch=self.batch_id,
        )

    def noted(self) -> dict[str, int]:
        """The value to store of each file, by path: the number of `FileFacts`."""
        return {str(f.local): FileFacts.read(f.local).number for f in self.files}

    def _check_all(self) -> Checked:
        found = [self._look(file) for file in self.files]
        return Checked(
            sum(each.beyond for each in found),
            any(each.unbalanced for each in found),
            any(each.returns for each in found),
            any(each.nul for each in found),
        )

    def _look(self, file: PlannedFile) -> Checked:
        return check_lines(file.local, cap=self.cap, quotes=self.form.format == "csv")

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
