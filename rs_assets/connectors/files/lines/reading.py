"""Reads a range of lines as Arrow batches, or raises if the file is not what was planned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from rs_assets.connectors.files.codecs import codec_of
from rs_assets.connectors.files.lines.files import (
    ARCHIVE_BLOCK_BYTES,
    BLOCK_BYTES,
    BOM,
    LineCounter,
    archive_blocks,
    file_key,
    look_at,
    plain_blocks,
    sibling_of,
    unreadable,
)
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.errors import DataLossError, SourceReadError

# Rows per Arrow batch, below Spark's own default of 10,000.
BATCH_ROWS = 8192
# A longer line is cut. Ten times the message limit of brokers; a value of this size, held up to six times (worker,
# socket, JVM, parser), still fits two cores in a heap of 512 MB.
MAX_LINE_BYTES = 10 << 20
# Larger ranges are read by several tasks.
PART_BYTES = 32 << 20
SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("value", pa.binary()),
    ]
)


def cut_range(planned: LineRange, *, part_bytes: int = PART_BYTES) -> list[LineRange]:
    """The range in parts of about `part_bytes`, cut between lines; archives and small ranges are not cut."""
    end_byte = planned.end_byte
    if end_byte is None or codec_of(Path(planned.file)) or end_byte - planned.start_byte <= part_bytes:
        return [planned]
    parts = []
    rest = planned
    try:
        with _opened(planned) as file:
            counter = LineCounter(line=planned.start_line - 1, byte=planned.start_byte)
            for block in plain_blocks(file, planned.start_byte, end_byte):
                counter.feed(block)
                if counter.byte - rest.start_byte >= part_bytes and counter.byte < end_byte:
                    parts.append(replace(rest, end_byte=counter.byte, end_line=counter.line))
                    rest = replace(rest, start_byte=counter.byte, start_line=counter.line + 1)
    except DataLossError:
        # The read fails the same way and reports it where such errors are expected.
        return [planned]
    return [*parts, rest]


def read_range(planned: LineRange, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[pa.RecordBatch]:
    """The lines of the range as non-empty batches of SCHEMA; memory is bounded by one line and one block.

    Empty lines are counted but not delivered; a longer line is cut at `max_line_bytes` and keeps its true `length`.
    `offset` and `length` are those of the value's own bytes, without terminator and byte order mark. DataLossError,
    before or after the rows, if the file is not, or no longer, what was planned.
    """
    with _opened(planned) as file:
        end = planned.end_byte
        counter = LineCounter(line=planned.start_line - 1, byte=planned.start_byte)
        if codec_of(Path(planned.file)):
            blocks = archive_blocks(file, Path(planned.file), planned.start_byte, end, BLOCK_BYTES, counter)
        else:
            size = os.fstat(file.fileno()).st_size
            blocks = plain_blocks(file, planned.start_byte, size if end is None else end)
        yield from _batches(_counted(blocks, counter), planned, max_line_bytes)
        counter.end_of_input()
        if end is not None and counter.byte != end:
            raise _loss(planned, f"it ends at byte {counter.byte}")
        if planned.end_line is not None and counter.line != planned.end_line:
            raise _loss(planned, f"its lines have changed, the range ends with line {counter.line}")
        _verify(planned, file)


class FirstLine(NamedTuple):
    """The first non-blank line of a file: its number, its text, and whether it is certainly complete."""

    number: int
    text: bytes
    ended: bool


def first_line(planned: LineRange) -> FirstLine | None:
    """The first line of the range's file, None if all are blank; SourceReadError if it is longer than a block."""
    head = b""
    with _opened(planned) as file:
        for block in _blocks(planned, file, 0, BLOCK_BYTES):
            head += block
            if b"\n" in head.removeprefix(BOM).lstrip():
                break
    lines = head.removeprefix(BOM).split(b"\n")
    number = next((n for n, line in enumerate(lines) if line.strip()), None)
    if number is None:
        return None
    ended = number + 1 < len(lines)
    if not ended and len(head) == BLOCK_BYTES:
        raise SourceReadError(
            f"the first line has more than {BLOCK_BYTES} bytes", remedy="give the file a header", file=planned.file
        )
    return FirstLine(number + 1, lines[number].removesuffix(b"\r"), ended)


def bytes_before(planned: LineRange, most: int) -> bytes:
    """Up to `most` bytes of the file before the range."""
    with _opened(planned) as file:
        return b"".join(_blocks(planned, file, max(0, planned.start_byte - most), planned.start_byte))


def _blocks(planned: LineRange, file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    if codec_of(Path(planned.file)):
        counter = LineCounter(line=0, byte=start)
        return archive_blocks(file, Path(planned.file), start, end, ARCHIVE_BLOCK_BYTES, counter)
    return plain_blocks(file, start, end)


@contextmanager
def _opened(planned: LineRange) -> Iterator[BinaryIO]:
    """The file of the range, by its name or a later one in the same directory, checked to be what was planned."""
    path = Path(planned.file)
    if planned.identity is not None:
        here = look_at(path)
        if here is None or not planned.identity.fits(here.key):
            copy = here if here is not None and planned.identity.copied_to(here.key) else None
            here = sibling_of(path, planned.identity) or copy
        if here is None:
            raise _loss(planned, "it is gone, and no file in its directory is the same one")
        path = here.file
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise _loss(planned, "it is gone") from None
    except OSError as error:
        raise unreadable(path, error) from error
    with file:
        _verify(planned, file)
        yield file


def _verify(planned: LineRange, file: BinaryIO) -> None:
    status = os.fstat(file.fileno())
    if planned.end_byte is not None and not codec_of(Path(planned.file)) and status.st_size < planned.end_byte:
        raise _loss(planned, f"it shrank to {status.st_size} bytes")
    identity = planned.identity
    if identity is None:
        return
    key = file_key(status)
    if not ((identity.fits(key) or identity.copied_to(key)) and identity.same_bytes(file)):
        raise _loss(planned, "its bytes have changed: it was rewritten")


def _loss(planned: LineRange, why: str) -> DataLossError:
    return DataLossError(
        f"lines that were planned cannot be read from {planned.file}: {why}",
        remedy="put the file back as it was, under its name or another in the same directory, and start again; or, if"
        " the lines are lost, begin a new generation (--new-generation)",
        file=planned.file,
        split=planned.split,
        start_byte=planned.start_byte,
        end_byte=planned.end_byte,
        start_line=planned.start_line,
        end_line=planned.end_line,
    )


def _counted(blocks: Iterator[bytes], counter: LineCounter) -> Iterator[bytes]:
    for block in blocks:
        counter.feed(block)
        yield block


class _Partial:
    """A line that continues in the next block: its first bytes, as far as needed, and its true size."""

    __slots__ = ("head", "keep", "last", "size", "start")

    def __init__(self, keep: int, start: int) -> None:
        self.head = bytearray()
        self.keep = keep
        self.start = start
        self.size = 0
        self.last = b""

    def add(self, chunk: bytes) -> None:
        if chunk:
            self.head += chunk[: max(0, self.keep - len(self.head))]
            self.size += len(chunk)
            self.last = chunk[-1:]

    def batch(self, name: str, line: int, cap: int, *, terminated: bool) -> pa.RecordBatch | None:
        """The line as a batch of one row; None if it is empty or only a carriage return."""
        skip = len(BOM) if self.start == 0 and self.head.startswith(BOM) else 0
        length = self.size - skip
        if self.last == b"\r" and (terminated or length == 1):
            length -= 1
        if length <= 0:
            return None
        value = bytes(self.head[skip : skip + min(length, cap)])
        numbers = [pa.array([number], pa.int64()) for number in (line, self.start + skip, length)]
        return pa.RecordBatch.from_arrays(
            [pa.array([name], pa.string()), *numbers, pa.array([value], pa.binary())], schema=SCHEMA
        )


def _batches(blocks: Iterator[bytes], planned: LineRange, cap: int) -> Iterator[pa.RecordBatch]:
    name = planned.split.encode("utf-8", "backslashreplace").decode()
    line, byte = planned.start_line, planned.start_byte
    partial = _Partial(cap + len(BOM), byte)
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if not cut:
            partial.add(block)
            continue
        first = 0
        if partial.size > min(BLOCK_BYTES, partial.keep):
            # Too long to be joined to the block: it becomes its own batch.
            first = block.index(b"\n") + 1
            partial.add(block[: first - 1])
            batch = partial.batch(name, line, cap, terminated=True)
            if batch is not None:
                yield batch
            line, byte = line + 1, byte + partial.size + 1
            buffer = block[first:cut]
        else:
            buffer = bytes(partial.head) + block[:cut]
        if buffer:
            batch, count = _rows(buffer, name, line, byte, cap)
            for row in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(row, BATCH_ROWS)
            line, byte = line + count, byte + len(buffer)
        partial = _Partial(cap + len(BOM), byte)
        partial.add(block[cut:])
    batch = partial.batch(name, line, cap, terminated=False)
    if batch is not None:
        yield batch


def _rows(buffer: bytes, name: str, line: int, byte: int, cap: int) -> tuple[pa.RecordBatch, int]:
    """The lines of a buffer that ends with a newline, and how many there were, including empty ones."""
    data = np.frombuffer(buffer, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts
    # For an empty line the byte before its end is a newline (or the buffer's last byte), never a carriage return.
    returns = data[ends - 1] == ord("\r")
    lengths -= returns
    skip = len(BOM) if byte == 0 and buffer.startswith(BOM) else 0
    starts[0] += skip
    lengths[0] -= skip
    kept = np.minimum(lengths, cap)
    if int(lengths.max()) > cap:
        values = b"".join(buffer[at : at + size] for at, size in zip(starts.tolist(), kept.tolist(), strict=True))
    else:
        # Exact: after the first step every remaining newline ends a line, and carriage returns keep their position.
        values = buffer[skip:]
        if returns.any():
            values = values.replace(b"\r\n", b"")
        values = values.replace(b"\n", b"")
    full = np.flatnonzero(lengths)
    bounds = np.zeros(len(full) + 1, np.int32)
    np.cumsum(kept[full], out=bounds[1:])
    columns = [
        pa.repeat(pa.scalar(name, pa.string()), len(full)),
        pa.array(full + line),
        pa.array(starts[full] + byte),
        pa.array(lengths[full]),
        pa.Array.from_buffers(pa.binary(), len(full), [None, pa.py_buffer(bounds), pa.py_buffer(values)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), len(ends)
