"""Temporary folders: each is locked by its process, so that a later process removes those of killed ones."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

# The end of the names of folders that are locked as long as a process may use them.
HELD: Final = ".held"
PREFIX: Final = "rs-"


class Held(NamedTuple):
    """A folder, and the handle whose lock says that it is in use."""

    folder: Path
    handle: int

    def end(self) -> None:
        """Remove it, and give the lock back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self.handle)


# Those of this process, and of the one that it was forked from, by process and place.
_own: dict[tuple[int, str], Held] = {}
_lock = threading.Lock()


def hold(prefix: str, place: Path) -> Held:
    """A new folder below `place`, locked until `end`, or until no process is left that has the handle.

    Folders with this prefix that killed processes of this user have left there are removed first. OSError if none can
    be made.
    """
    _remove_left(prefix, place)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=HELD, dir=place))
        # Another process may take it for one that was left, and remove it, until it is locked.
        with suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            # Where there are no locks, nothing is ever removed.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_SH)
            if folder.is_dir():
                return Held(folder, handle)
            os.close(handle)


@contextmanager
def held_folder(prefix: str, place: Path) -> Iterator[Path]:
    """A new folder below `place` within the block; those that killed processes have left there are removed."""
    held = hold(prefix, place)
    try:
        yield held.folder
    finally:
        held.end()


def own_folder(place: str | None = None) -> Held:
    """The folder of this process below `place` (default: where temporary files are), until it ends."""
    key = os.getpid(), place or tempfile.gettempdir()
    with _lock:
        held = _own.get(key)
        if held is None or not held.folder.is_dir():
            # There is none yet, or temporary files were cleaned up.
            held = _own[key] = hold(PREFIX, Path(key[1]))
        return held


def new_folder(prefix: str) -> Path:
    """A new temporary folder, which is removed when this process ends, or by a later one if it is killed."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=own_folder().folder))


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new temporary folder that is removed at the end.

    Spark maintains state on its own threads, which may still write after the queries have ended. A second removal
    deletes files that appear during the first; files that appear even later remain until the process ends.

    >>> with scratch_folder("example-") as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    folder = new_folder(prefix)
    try:
        yield folder
    finally:
        for _ in range(2):
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left(prefix: str, place: Path) -> None:
    for folder in place.glob(f"{prefix}*{HELD}"):
        # It may be gone, a link, that of another user, or in use.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _end() -> None:
    """Remove those of this process; what was registered later, as the end of Spark, is called earlier."""
    for key, held in list(_own.items()):
        if key[0] == os.getpid():
            held.end()


atexit.register(_end)
