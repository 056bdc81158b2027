"""Checks in parallel with Spark whether all lines of files are plain, about as fast as Spark reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.connectors.files.lines.files import codec_of, opened
from rs_assets.connectors.files.whole.plain_regex import Order, Shape

# A regular expression is compiled for each block, and Spark's tasks read files in parts.
BLOCK_BYTES, PART_BYTES = 1 << 20, 64 << 20
SAMPLE_BYTES = 1 << 16
# How many kinds of records are learned, with different keys, and from how many lines of a block.
MOST_KINDS, MOST_LESSONS = 256, 1000
NEWLINE = b"\n"


# Complete lines.
Block = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of a file from `start` to `end`, which are complete lines. None: to the end of the file."""

    file: Path
    start: int = 0
    end: int | None = None


@dataclass(slots=True)
class PlainLines:
    """Checks whether lines are plain for `shape`; learns the order of keys from the first lines that are not.

    Thread-safe. Once a part was found that is not plain, no other is checked.
    """

    shape: Shape
    given_up: bool = False
    _pattern: str = ""
    _seen: set[tuple[str, ...]] = field(default_factory=set)
    _learning: threading.Lock = field(default_factory=threading.Lock)

    def samples(self, file: Path) -> bool:
        """Whether the first lines of `file` are plain; an incomplete last line does not count."""
        with suppress(OSError), opened(file) as source:
            head = source.read(SAMPLE_BYTES)
            return self._are_plain(head[: head.rfind(NEWLINE) + 1])
        return False

    def count(self, part: Part) -> int | None:
        """How many lines `part` has, if all of them are plain."""
        lines = 0
        with suppress(OSError):
            for block in _blocks(part):
                if self.given_up or block is None or not self._are_plain(block):
                    break
                lines += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord(NEWLINE)))
            else:
                return lines
        self.given_up = True
        return None

    def _are_plain(self, block: Block) -> bool:
        """Whether `block`, which is complete lines, is plain; learns from it as long as that can help."""
        pattern = self._pattern
        while not (pattern and _matches(block, pattern)):
            with self._learning:
                if self._pattern == pattern and not self._learn(block):
                    return False
                pattern = self._pattern
        return True

    def _learn(self, block: Block) -> bool:
        """Whether the keys of lines that are not plain revealed another order."""
        found = self._seen.union(_keys(block, self._pattern))
        order = Order.of(found) if self._seen < found and len(found) <= MOST_KINDS else None
        if order is not None:
            self._seen, self._pattern = found, self.shape.lines(order)
        return order is not None


def parts_of(file: Path) -> list[Part]:
    """The parts in which a file is checked, all of them complete lines; an archive is one part."""
    size = file.stat().st_size
    if codec_of(file) is not None or size <= PART_BYTES:
        return [Part(file)]
    begins = [0]
    with opened(file) as source:
        for at in range(PART_BYTES, size, PART_BYTES):
            source.seek(max(at, begins[-1]))
            source.readline(BLOCK_BYTES)
            begins.append(source.tell())
    return [Part(file, start, end) for start, end in zip(begins, [*begins[1:], None], strict=True)]


def _blocks(part: Part) -> Iterator[memoryview | None]:
    """The lines of a part in blocks, each with all its newlines; the next block overwrites the same memory.

    None for a line that is longer than a block.
    """
    # One more byte, for the newline that a last line may lack.
    memory, left = bytearray(BLOCK_BYTES + 1), None if part.end is None else part.end - part.start
    view, filled = memoryview(memory), 0
    with opened(part.file) as source:
        if part.start:
            source.seek(part.start)
        while read := source.readinto(view[filled : BLOCK_BYTES if left is None else min(BLOCK_BYTES, filled + left)]):
            left = None if left is None else left - read
            ended = memory.rfind(NEWLINE, filled, filled + read) + 1
            filled += read
            if ended:
                yield view[:ended]
                memory[: filled - ended] = memory[ended:filled]
                filled -= ended
        if filled == BLOCK_BYTES:
            yield None
        elif bytes(view[:filled]).strip():
            memory[filled] = ord(NEWLINE)
            yield view[: filled + 1]


def _matches(block: Block, pattern: str) -> bool:
    """Whether the whole of `block` matches `pattern`; runs without Python's lock."""
    return bool(pc.match_substring_regex(_texts(block, np.array([0, len(block)])), pattern)[0].as_py())


def _texts(block: Block, ends: np.ndarray) -> pa.StringArray:
    """The pieces of `block` between `ends`, without a copy; the regular expression checks that they are UTF-8."""
    return pa.StringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(block))


def _keys(block: Block, pattern: str) -> Iterator[tuple[str, ...]]:
    """The keys of the first lines in `block` that are objects and not yet plain."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord(NEWLINE)) + 1
    lines = _texts(block, np.append(0, ends))
    if pattern:
        lines = lines.filter(pc.invert(pc.match_substring_regex(lines, pattern)))
    for line in lines[:MOST_LESSONS].cast(pa.binary()).to_pylist():
        with suppress(ValueError, RecursionError):
            record = json.loads(line, object_pairs_hook=_Pairs)
            if isinstance(record, _Pairs):
                yield tuple(key for key, _ in record)


class _Pairs(list[tuple[str, object]]):
    """A JSON object as written, including duplicate keys."""

    __slots__ = ()
