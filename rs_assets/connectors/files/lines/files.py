"""Identity of files, and their bytes with archives unpacked."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from rs_assets.connectors.files.codecs import codec_of
from rs_assets.errors import CheckpointError, SourceReadError

# Bytes hashed to recognise a file, at its beginning and where reading ended: files with one long header differ there.
# Each is less than one page to read.
ENDS_BYTES = 1024
# Bytes per read: 10,000 lines of 100 bytes, enough to make numpy's fixed cost per block negligible.
BLOCK_BYTES = 1 << 20
# Archives are scanned in smaller steps, so that "the last good line" of a damaged one is close to the damage.
ARCHIVE_BLOCK_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"


class FileKey(NamedTuple):
    """Device and inode, which identify a file whatever its name."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a file: its key, and a hash of both ends of its first `size` bytes.

    >>> Identity.parse("5-7-0-").key
    FileKey(device=5, inode=7)
    """

    key: FileKey
    size: int
    digest: str

    @classmethod
    def of(cls, file: BinaryIO, size: int) -> Identity:
        """The identity of an open file by its first `size` bytes."""
        return cls(key=file_key(os.fstat(file.fileno())), size=size, digest=_digest(file, size))

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity that `str` wrote; CheckpointError for any other text."""
        try:
            device, inode, size, digest = text.split("-")
            return cls(key=FileKey(int(device), int(inode)), size=int(size), digest=digest)
        except ValueError:
            raise CheckpointError(f"{text!r} is not a file identity") from None

    def __str__(self) -> str:
        return f"{self.key.device}-{self.key.inode}-{self.size}-{self.digest}"

    def fits(self, key: FileKey) -> bool:
        """Whether a file with that key may be this one; after a reboot the same disk may have another device number."""
        return key.inode == self.key.inode and (key.device == self.key.device or self.size > 0)

    def copied_to(self, key: FileKey) -> bool:
        """Whether another file under the same name, with the same bytes, is a copy: an editor or rsync writes one.

        A successor on the same disk may begin with the same short header, so a few bytes prove nothing.
        """
        return self.size > (ENDS_BYTES if key.device == self.key.device else 0)

    def same_bytes(self, file: BinaryIO) -> bool:
        """Whether the file still has the same bytes at both ends of its first `size`."""
        return _digest(file, self.size) == self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file as it was found: its real path (links followed), key, size and age."""

    file: Path
    key: FileKey
    size: int
    mtime_ns: int


class LineCounter:
    r"""Counts lines in blocks of bytes: `line` complete lines end at `byte`; `seen` bytes were counted.

    >>> counter = LineCounter(line=0, byte=0, rows=2)
    >>> counter.feed(b"one\ntwo\nthree\n"), counter.line, counter.byte
    (True, 2, 8)
    """

    __slots__ = ("byte", "line", "rows", "seen")

    def __init__(self, *, line: int, byte: int, rows: int | None = None) -> None:
        self.line = line
        self.byte = byte
        self.rows = rows
        self.seen = byte

    def feed(self, block: bytes) -> bool:
        """Count a block; True if the row limit is reached."""
        newlines = np.frombuffer(block, np.uint8) == ord("\n")
        count = int(np.count_nonzero(newlines))
        if self.rows is not None and count >= self.rows:
            count = self.rows
            last = int(np.flatnonzero(newlines)[count - 1])
        else:
            last = block.rfind(b"\n")
        if count:
            self.line += count
            self.byte = self.seen + last + 1
        self.seen += len(block)
        if self.rows is None:
            return False
        self.rows -= count
        return self.rows == 0

    def end_of_input(self) -> None:
        """The end of the file: text after the last newline is a line too, if the limit allows one more."""
        if self.seen > self.byte and self.rows != 0:
            self.line += 1
            self.byte = self.seen


def look_at(file: Path) -> Seen | None:
    """The regular file of that name, None if there is none."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(file, error) from error
    if not stat.S_ISREG(status.st_mode):
        return None
    return Seen(file=file.resolve(), key=file_key(status), size=status.st_size, mtime_ns=status.st_mtime_ns)


def files_in(folder: Path) -> list[Seen]:
    """The files directly in `folder`; [] if it does not exist."""
    return [seen for file in folder.iterdir() if (seen := look_at(file))] if folder.is_dir() else []


def sibling_of(file: Path, identity: Identity) -> Seen | None:
    """The file in the same directory that may have that identity."""
    if not file.parent.is_dir():
        return None
    with os.scandir(file.parent) as entries:
        names = sorted(entry.path for entry in entries if entry.inode() == identity.key.inode)
    found = [seen for name in names if (seen := look_at(Path(name))) and identity.fits(seen.key)]
    return found[0] if found else None


def file_key(status: os.stat_result) -> FileKey:
    """Device and inode from the status of a file."""
    return FileKey(status.st_dev, status.st_ino)


def _digest(file: BinaryIO, size: int) -> str:
    if size == 0:
        return ""
    # Bypasses all buffers: the bytes as they are on disk now.
    found = hashlib.blake2b(os.pread(file.fileno(), min(size, ENDS_BYTES), 0), digest_size=8)
    if size > ENDS_BYTES:
        found.update(os.pread(file.fileno(), ENDS_BYTES, size - ENDS_BYTES))
    return found.hexdigest()


@contextmanager
def opened(file: Path) -> Iterator[BufferedReader]:
    """The bytes of a file; archives are unpacked."""
    codec = codec_of(file)
    if codec is None:
        with file.open("rb") as source:
            yield source
    else:
        with pa.input_stream(str(file), compression=codec) as packed, BufferedReader(packed) as source:
            yield source


def unreadable(file: Path, error: OSError) -> SourceReadError:
    """The error for a file that cannot be read."""
    return SourceReadError(
        f"{file} cannot be read: {error.strerror or error}", remedy="check the file and its permissions", file=str(file)
    )


def plain_blocks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Bytes `start` to `end`, or to the end of the file if that is earlier."""
    file.seek(start)
    left = end - start
    while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
        left -= len(block)
        yield block


def archive_blocks(
    file: BinaryIO, path: Path, start: int, end: int | None, step: int, counter: LineCounter
) -> Iterator[bytes]:
    """Decompressed bytes `start` to `end`; the error for a damaged archive says up to where `counter` found it good."""
    if os.fstat(file.fileno()).st_size == 0:
        return
    at = 0
    try:
        # A descriptor of its own, since the stream closes its descriptor.
        with os.fdopen(os.dup(file.fileno()), "rb") as raw:
            os.lseek(raw.fileno(), 0, os.SEEK_SET)
            stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec_of(path))
            while end is None or at < end:
                block = stream.read(step if end is None else min(step, end - at))
                if not block:
                    return
                at += len(block)
                if at > start:
                    yield block[max(0, start - (at - len(block))) :]
    except OSError as error:
        raise SourceReadError(
            f"{path} is damaged or cut short after line {counter.line} (byte {counter.byte}): {error}",
            remedy="replace it by a complete archive; move archives in by rename, so that no incomplete one is visible",
            file=str(path),
            line=counter.line,
            byte=counter.byte,
        ) from error
