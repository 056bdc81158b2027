"""A disk that stops at a chosen change: what lies there then is what a SIGKILL at that change would leave.

The process runs with `shim.c` loaded, which counts the changes below a folder in Python, the JVM and delta-rs, and
lets every one fail once the count is used up. Whatever the process does then to end its run leaves no trace, so behind
`open` the next run meets just what a killed one would have left, and nobody had to start another JVM.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

NEVER = 1 << 62
NUMBERS = struct.Struct("qq")


class Gate:
    """The gate of this process, which `environment` was made for at its start."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), NUMBERS.size)

    @classmethod
    def here(cls) -> Gate | None:
        """The gate that this process was started with."""
        named = os.environ.get("RS_TORTURE_GATE")
        return cls(Path(named)) if named else None

    @property
    def asked(self) -> int:
        """How many changes there were since the gate was set."""
        return int(NUMBERS.unpack(self._map[:])[1])

    def close_at(self, change: int) -> None:
        """Let the changes before that one through, from now on, and none behind it."""
        self._map[:] = NUMBERS.pack(change - 1, 0)

    def open(self) -> None:
        """Let everything through, and count from nothing."""
        self._map[:] = NUMBERS.pack(NEVER, 0)


def environment(folder: Path, root: Path, shim: Path) -> Mapping[str, str]:
    """What a program needs to have a gate before changes below `root`."""
    file = folder / "gate"
    file.write_bytes(NUMBERS.pack(NEVER, 0))
    return {"LD_PRELOAD": str(shim), "RS_TORTURE_ROOT": str(root), "RS_TORTURE_GATE": str(file)}


def begin_again(folder: Path, root: Path, shim: Path) -> None:
    """Replace this process by itself, with a gate."""
    arguments = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, **environment(folder, root, shim)})
