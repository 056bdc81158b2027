"""Frames between a task of Spark and its Python worker, over two pipes: `PythonWorker.scala` has the other end.

A frame is a number, a kind, a length and so many bytes. A worker answers each frame with one of the same number, so an
answer that was meant for an earlier frame is recognised.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

import pyarrow as pa

HEADER = struct.Struct(">qbi")
LENGTH = struct.Struct(">i")
TIME = struct.Struct(">q")
# The watermark of a step without time.
NO_TIME = -1


class Kind(IntEnum):
    """LOAD carries a pickled function, BATCH a watermark and a batch, ANSWER what was returned, ERROR a text."""

    LOAD = 0
    BATCH = 1
    ANSWER = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One message.

    >>> from io import BytesIO
    >>> pipe = BytesIO()
    >>> write(pipe, Frame(7, Kind.ANSWER, b"rows"))
    >>> _ = pipe.seek(0)
    >>> read(pipe)
    Frame(number=7, kind=<Kind.ANSWER: 2>, content=b'rows')
    >>> read(pipe) is None
    True
    """

    number: int
    kind: Kind
    content: bytes


def write(pipe: BinaryIO, frame: Frame) -> None:
    """Write `frame`, and flush: the other end waits for it."""
    pipe.write(HEADER.pack(frame.number, frame.kind, len(frame.content)))
    pipe.write(frame.content)
    pipe.flush()


def read(pipe: BinaryIO) -> Frame | None:
    """The next frame; None once the other end is gone, also in the middle of a frame."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    number, kind, length = HEADER.unpack(header)
    content = pipe.read(length)
    return Frame(number, Kind(kind), content) if len(content) == length else None


def batch_in(content: bytes) -> tuple[pa.RecordBatch, int]:
    """The batch of a frame, and its watermark in milliseconds since 1970 (NO_TIME: there is none)."""
    (watermark_ms,) = TIME.unpack_from(content)
    with pa.ipc.open_stream(pa.py_buffer(content).slice(TIME.size)) as stream:
        return stream.read_next_batch(), watermark_ms


def answer_of(states: pa.RecordBatch, rows: pa.Table) -> bytes:
    """The content of an answer: the new states, preceded by their length, and the rows."""
    first = _stream(pa.Table.from_batches([states]))
    return LENGTH.pack(len(first)) + first + _stream(rows)


def _stream(table: pa.Table) -> bytes:
    made = pa.BufferOutputStream()
    with pa.ipc.new_stream(made, table.schema) as stream:
        stream.write_table(table)
    content: bytes = made.getvalue().to_pybytes()
    return content
