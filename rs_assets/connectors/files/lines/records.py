"""Lines of CSV as records: the selected columns of each, and the lines that are not a record of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from rs_assets.connectors.files.header import Columns, columns_of
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES, SCHEMA, bytes_before, read_range

# The selected columns of a line as CSV, null if they are the whole line; and why it is not a record.
RECORD, FAULT = "record", "fault"
RECORDS = SCHEMA.append(pa.field(RECORD, pa.binary())).append(pa.field(FAULT, pa.string()))
# How far a quoted value is followed after the line that opens it.
REACH_BYTES = 1 << 16
QUOTE = ord('"')
COMMA = b","
# What may follow a closing quote, unless it is the delimiter.
BLANKS = b" \t"
INSIDE = re.compile(rb'(?:[^"]|"")*+')
WITHIN = "malformed CSV: the line may belong to a quoted value that an earlier line leaves open"


@lru_cache
def patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Each column with the preceding delimiter (one is put before the line), and a line that leaves a quote open."""
    mark, blanks = re.escape(delimiter), BLANKS.replace(delimiter, b"")
    quoted = rb'"(?:[^"]|"")*+"' + (rb"[" + blanks + rb"]*+")
    plain = rb'(?:[^"' + mark + rb"][^" + mark + rb"]*+)?+"
    column = quoted + rb"|" + plain
    return re.compile(mark + rb"(" + column + rb")"), re.compile(
        rb"(?:(?:" + column + rb")" + mark + rb')*+"(?:[^"]|"")*+'
    )


def read_records(
    planned: LineRange,
    names: Sequence[str] | None,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    delimiter: str = ",",
) -> Iterator[pa.RecordBatch]:
    """The lines of the range as from `read_range`, as batches of RECORDS and without the header.

    `names` are the selected columns of a file with a header, None if there is no header. SourceReadError for a missing
    header.
    """
    head = columns_of(planned, names, delimiter=delimiter) if names is not None else None
    number, columns = head or (0, None)
    between = delimiter.encode()
    pick = None if columns is None or columns.in_place else picker(columns, between)
    quotes = OpenQuotes.before(planned, between)
    for batch in read_range(planned, max_line_bytes=max_line_bytes):
        kept = batch.filter(pa.compute.greater(batch["line"], number)) if planned.start_line <= number else batch
        if kept.num_rows:
            yield _with_records(kept, quotes, pick)


def picker(columns: Columns, delimiter: bytes = COMMA) -> Callable[[bytes], bytes | None]:
    """A function that returns the selected columns of a line, unchanged; None if the line does not fit.

    >>> picker(Columns((2, 0), 3))(b'1,"x,y",z')
    b'z,1'
    """
    column, _ = patterns(delimiter)

    def pick(line: bytes) -> bytes | None:
        if QUOTE not in line:
            values = line.split(delimiter)
        else:
            values = column.findall(delimiter + line)
            # Text after a closing quote belongs to no column.
            if sum(map(len, values)) + len(values) != len(line) + 1:
                return None
        return delimiter.join([values[place] for place in columns.places]) if len(values) == columns.width else None

    return pick


class OpenQuotes:
    r"""Finds the lines that may be part of a quoted value: those after a line that leaves one open.

    The value ends with the line that closes it, with a line that cannot belong to it, or after REACH_BYTES.

    >>> OpenQuotes().within([b'1,"a', b"2,b", b'3,c"', b"4,d"])
    [1, 2]
    """

    __slots__ = ("_delimiter", "_opens", "left")

    def __init__(self, delimiter: bytes = COMMA) -> None:
        self.left = 0
        self._delimiter = delimiter
        _, self._opens = patterns(delimiter)

    @classmethod
    def before(cls, planned: LineRange, delimiter: bytes = COMMA) -> OpenQuotes:
        """The open quote, if any, at the start of a range."""
        made = cls(delimiter)
        if planned.start_byte:
            # There is nothing after the last newline, and half a line before the first one if the file began earlier.
            most = 2 * REACH_BYTES
            made.within(bytes_before(planned, most).split(b"\n")[planned.start_byte > most : -1])
        return made

    def within(self, lines: Sequence[bytes]) -> list[int]:
        """The indices of the next lines that may be part of a value."""
        found = []
        for number, line in enumerate(lines):
            inside = self.left > 0
            self.left -= len(line) + 1
            rest: bytes | None = line
            if inside:
                closed = INSIDE.match(line)
                end = closed.end() if closed else 0
                after = line[end + 1 :].lstrip((BLANKS + b"\r").replace(self._delimiter, b""))
                if end < len(line) and after and not after.startswith(self._delimiter):
                    inside = False
                else:
                    found.append(number)
                    rest = after[1:] if end < len(line) else None
            if rest is not None:
                self.left = REACH_BYTES if QUOTE in rest and self._opens.fullmatch(rest.rstrip(b"\r")) else 0
        return found


def _with_records(
    batch: pa.RecordBatch, quotes: OpenQuotes, pick: Callable[[bytes], bytes | None] | None
) -> pa.RecordBatch:
    values = batch["value"]
    lines = values.to_pylist() if pick is not None or quotes.left > 0 or _has_odd(values) else []
    faults: list[str | None] = [None] * len(lines)
    records = [pick(line) for line in lines] if pick is not None else []
    for number, record in enumerate(records):
        if record is None:
            faults[number] = "malformed CSV: its columns are not those of the header"
    for number in quotes.within(lines):
        faults[number] = WITHIN
    made = pa.array(records, pa.binary()) if records else pa.nulls(len(batch), pa.binary())
    reasons = pa.array(faults, pa.string()) if faults else pa.nulls(len(batch), pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, made, reasons], schema=RECORDS)


def _has_odd(values: pa.BinaryArray) -> bool:
    """Whether a line has an odd number of quotes: only such a line leaves one open."""
    ends = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
    places = np.flatnonzero(np.frombuffer(values.buffers()[2], np.uint8)[ends[0] : ends[-1]] == QUOTE)
    return bool(np.any(np.diff(np.searchsorted(places, ends - ends[0])) & 1))
