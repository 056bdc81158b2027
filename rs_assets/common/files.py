"""Atomic writes of small files, reading of long files from their end, and the modification time of files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the content of the file at `path` by `data`; its folder must exist.

    Readers and crashes see the old content or the new one, never a part of it. With `durable` this also holds for a
    power cut, and the new content is on the disk on return. OSError, with the old content kept, if the write fails.
    """
    # Spark and our own listings ignore names of this form.
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with hidden.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Make a file durable, or what was created, renamed and removed in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lines_from_end(path: Path, *, block_bytes: int = 1 << 16) -> Iterator[bytes]:
    r"""The lines of a file without their line ends, the last one first; reads only as many blocks as are consumed.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"v1\none\ntwo\n")
    ...     file.flush()
    ...     list(lines_from_end(Path(file.name), block_bytes=4))
    [b'two', b'one', b'v1']
    """
    with path.open("rb") as file:
        end, rest = file.seek(0, os.SEEK_END), b""
        while end > 0:
            begin = max(0, end - block_bytes)
            file.seek(begin)
            first, *whole = (file.read(end - begin) + rest).split(b"\n")
            yield from (line for line in reversed(whole) if line)
            end, rest = begin, first
        if rest:
            yield rest


def modified_ms(facts: os.stat_result) -> int:
    """The modification time of a file in whole milliseconds, rounded as Java does; a float would round some up."""
    return facts.st_mtime_ns // 1_000_000
