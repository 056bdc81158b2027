"""Files and folders of a checkpoint on disk: numbered names, and Hadoop's checksums."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise, zip_longest
from pathlib import Path

from rs_assets.errors import CheckpointError

# Python's isdigit() also accepts digits of other scripts; Spark never writes leading zeros.
NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
CRC_MAGIC = b"crc\0"
CRC_HEADER = 8
CHUNKS_AT_ONCE = 2048
MOST_BYTES_PER_SUM = 1 << 20


def file_names(folder: Path) -> list[str]:
    """The names of the plain files in `folder`, without links; empty if it is not a folder."""
    return [entry.name for entry in _entries(folder) if entry.is_file(follow_symlinks=False)]


def folder_numbers(folder: Path) -> list[int]:
    """The folders in `folder` whose names are numbers, in order."""
    names = (entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False))
    return sorted(int(name) for name in names if NUMBER.fullmatch(name))


def file_numbers(folder: Path) -> list[int]:
    """The files in `folder` whose names are numbers, in order."""
    return sorted(int(name) for name in file_names(folder) if NUMBER.fullmatch(name))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(
            f"a folder of the checkpoint cannot be listed: {error.strerror}",
            remedy="check the disk and the permissions",
            file=folder,
        ) from error


def spans(numbers: Iterable[int]) -> str:
    """Numbers for people, with consecutive ones joined.

    >>> spans([2, 3, 4, 7, 9, 10])
    '2 to 4, 7, 9, 10'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(parts[:10]) + (" and more" if len(parts) > 10 else "")


def gaps(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last missing number of each gap between ordered numbers.

    >>> gaps([3, 4, 7, 9])
    [(5, 6), (8, 8)]
    """
    return [(low + 1, high - 1) for low, high in pairwise(numbers) if high - low > 1]


def bit_flipped(file: Path) -> bool:
    """True if `file` differs from the checksums that Hadoop wrote next to it as `.NAME.crc`.

    As in Hadoop, a missing checksum file or one without a proper header is ignored. OSError if `file` cannot be read.
    """
    try:
        side = file.with_name(f".{file.name}.crc").read_bytes()
    except FileNotFoundError:
        return False
    if len(side) < CRC_HEADER or side[: len(CRC_MAGIC)] != CRC_MAGIC:
        return False
    bytes_per_sum = int.from_bytes(side[len(CRC_MAGIC) : CRC_HEADER], "big")
    sums = side[CRC_HEADER:]
    if not 0 < bytes_per_sum <= MOST_BYTES_PER_SUM or len(sums) % 4:
        return True
    expected = (item[0] for item in struct.iter_unpack(">I", sums))
    return any(one != other for one, other in zip_longest(_checksums(file, bytes_per_sum), expected))


def _checksums(file: Path, bytes_per_sum: int) -> Iterator[int]:
    """The CRC-32 of each chunk of a file."""
    with file.open("rb") as stream:
        while block := stream.read(bytes_per_sum * CHUNKS_AT_ONCE):
            view = memoryview(block)
            for start in range(0, len(block), bytes_per_sum):
                yield zlib.crc32(view[start : start + bytes_per_sum])
