"""Locks on files: one holder at a time, a process or a thread of one; that of a killed process is free at once."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rs_assets.errors import SourceReadError

LOCK: Final = ".lock"
# How long a reader waits for another one, and the pause between two looks.
PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.05


def acquire(path: Path) -> int | None:
    """A handle that holds the lock of the file `path` until `release`, or the end of the process; None: it is held.

    The file is made if it is not there, and stays. OSError if that fails, or the file system has no locks.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        return locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def locked(handle: int, how: int) -> int:
    """The `handle` with a lock of this kind, a number of `fcntl`; it is closed if that fails."""
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle


def release(handle: int) -> None:
    """Give the lock back, also where a forked process has the handle, too."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


@contextmanager
def read_alone(folder: Path, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Within the block no one else brings rows of a source to `folder`, which is made if it is not there.

    Another reader is waited for, but not longer than `patience_s`: then SourceReadError, which names its process. The
    same error for a folder that cannot be written, or whose file system has no locks.
    """
    handle = _awaited(folder, patience_s)
    try:
        yield
    finally:
        release(handle)


def _awaited(folder: Path, patience_s: float) -> int:
    path, until = folder / LOCK, time.monotonic() + patience_s
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while (handle := acquire(path)) is None:
            if time.monotonic() >= until:
                raise _held(path, patience_s)
            time.sleep(LOOK_S)
    except OSError as error:
        raise SourceReadError(
            f"the folder for the rows of a source cannot be locked: {error.strerror}",
            remedy="let this user write to it; its file system must have locks (flock)",
            folder=folder,
        ) from error
    # Only the text of an error needs it: with a full disk the next write fails.
    with suppress(OSError):
        os.truncate(handle, os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}".encode(), 0))
    return handle


def _held(path: Path, patience_s: float) -> SourceReadError:
    holder = path.read_text(encoding="utf-8") or "?"
    return SourceReadError(
        f"an earlier run still reads this source after {patience_s:g} s of waiting: process {holder}",
        remedy=f"start again when that process has ended; kill {holder.split()[0]} ends it",
        folder=path.parent,
    )
