"""The writer of a collector's log: records are on the disk before `append` returns, many of them by one sync."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final, Self

import orjson

from rs_assets.common.files import sync, write_atomically
from rs_assets.common.locks import acquire, release
from rs_assets.connectors.collector.log import IDENTITY, CollectedLog
from rs_assets.connectors.collector.messages import Message, line_of
from rs_assets.errors import SourceReadError

LOCK: Final = "collector.lock"
ROLL_BYTES: Final = 64 << 20
ROLL_AFTER_S: Final = 60.0


class NotStored(Exception):
    """Messages are not in the log, so their senders must send them again: the disk is full or cannot be written."""


@dataclass(slots=True)
class _Waiting:
    """The lines of one call of `append`, and what became of them."""

    lines: bytes
    count: int
    done: bool = False
    failure: OSError | None = None


class LogWriter:
    """The only writer of the log in `folder`; a context manager that holds its lock.

    `append` may be called by several threads: what waits while the disk is busy is written together. A segment ends
    at `roll_bytes` bytes or after `roll_after_s` seconds, whichever comes first.
    """

    def __init__(self, folder: Path, *, roll_bytes: int = ROLL_BYTES, roll_after_s: float = ROLL_AFTER_S) -> None:
        self.folder = folder
        self._roll = (roll_bytes, roll_after_s)
        self._guard, self._disk = threading.Lock(), threading.Lock()
        self._waiting: list[_Waiting] = []
        self._lock: int | None = None
        self._file: FileIO | None = None
        self._next, self._size, self._began = 0, 0, 0.0

    def acquire(self) -> bool:
        """Whether the lock is held now; False if another collector of the log runs. OSError for a bad folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = acquire(self.folder / LOCK)
        return self._lock is not None

    def __enter__(self) -> Self:
        """Take the lock, unless `acquire` has; SourceReadError if another collector runs."""
        if self._lock is None and not self.acquire():
            raise SourceReadError(
                "another collector writes this log", remedy="stop it, or let it do the work", folder=self.folder
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Close the segment and give the lock back."""
        with self._disk:
            self._close()
        if self._lock is not None:
            release(self._lock)
            self._lock = None

    def append(self, messages: Sequence[Message]) -> None:
        """Write messages in their order; on return they are on the disk. NotStored if they are not, or not all."""
        lines = b"".join(line_of(message) + b"\n" for message in messages)
        mine = _Waiting(lines, len(messages))
        with self._guard:
            self._waiting.append(mine)
        with self._disk:
            if not mine.done:
                with self._guard:
                    together, self._waiting = self._waiting, []
                self._store(together)
        if mine.failure is not None:
            raise NotStored(mine.failure.strerror or str(mine.failure)) from mine.failure

    def _store(self, together: Sequence[_Waiting]) -> None:
        try:
            if self._lock is None:
                raise OSError(errno.EBADF, "the collector has stopped")  # noqa: TRY301  refused as a full disk is
            self._write(b"".join(each.lines for each in together), sum(each.count for each in together))
        except OSError as error:
            # What was written of them keeps its numbers: a reader may have seen it. The torn end is cut off at the
            # next call.
            self._close()
            for each in together:
                each.failure = error
        for each in together:
            each.done = True

    def _write(self, lines: bytes, count: int) -> None:
        file = self._segment()
        left = memoryview(lines)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
        self._next += count
        self._size += len(lines)

    def _segment(self) -> FileIO:
        """The segment to write to: the open one, or the next one."""
        most_bytes, most_s = self._roll
        if self._file is not None:
            if self._size < most_bytes and time.monotonic() - self._began < most_s:
                return self._file
            self._close()
        else:
            self._next = self._recovered()
        path = self.folder / f"records-{self._next:015d}.jsonl"
        self._file = path.open("ab", buffering=0)
        self._size, self._began = 0, time.monotonic()
        sync(self.folder)
        return self._file

    def _recovered(self) -> int:
        """The number of the next record, with the torn line cut off that a crash or a full disk left."""
        log = CollectedLog(self.folder)
        if log.name() is None:
            write_atomically(self.folder / IDENTITY, orjson.dumps({"name": f"log-{uuid.uuid4().hex[:12]}"}))
        segments = log.segments()
        if not segments:
            return 0
        with segments[-1].file.open("r+b") as file:
            os.ftruncate(file.fileno(), _complete(file.fileno()))
            os.fsync(file.fileno())
        return log.end()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def _complete(handle: int, block: int = 1 << 16) -> int:
    """The bytes of a file up to the end of its last complete line."""
    end = os.fstat(handle).st_size
    while end:
        start = max(0, end - block)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
