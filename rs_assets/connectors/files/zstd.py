"""The frames of a zstd file: Spark's reader takes the end of a file within a later frame for the end of the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MAGIC: Final = 0xFD2FB528
# The magic numbers of frames without data differ in their last four bits.
SKIPPED: Final = 0x184D2A5
# The type of a block that repeats one byte.
REPEATED: Final = 1
# The bytes of a frame's header by two bits of its flags.
DICTIONARY: Final = (0, 1, 2, 4)
CONTENT: Final = (0, 2, 4, 8)


def is_cut(file: Path) -> bool:
    """Whether bytes are missing at the end; False for content that is not of zstd, which every reader refuses."""
    with file.open("rb") as source:
        size, at = os.fstat(source.fileno()).st_size, 0
        try:
            while at < size:
                end = _end_of_frame(source.fileno(), at)
                if end is None:
                    return False
                at = end
        except EOFError:
            return True
    return at > size


def _end_of_frame(file: int, at: int) -> int | None:
    magic = _number(file, at, 4)
    if magic >> 4 == SKIPPED:
        return at + 8 + _number(file, at + 4, 4)
    if magic != MAGIC:
        return None
    flags = _number(file, at + 4, 1)
    alone = flags >> 5 & 1
    # The size of the window is left out if the whole content is one segment.
    at += 6 - alone + DICTIONARY[flags & 3] + (CONTENT[flags >> 6] or alone)
    last = 0
    while not last:
        block = _number(file, at, 3)
        last = block & 1
        at += 3 + (1 if block >> 1 & 3 == REPEATED else block >> 3)
    return at + 4 * (flags >> 2 & 1)


def _number(file: int, at: int, length: int) -> int:
    found = os.pread(file, length, at)
    if len(found) < length:
        raise EOFError
    return int.from_bytes(found, "little")
