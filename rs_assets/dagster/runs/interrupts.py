"""Handling of the signals that end a run at a terminal."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Open files among which terminals are searched.
FILES = 256


@contextmanager
def heard_at_terminal() -> Iterator[None]:
    """Within this block SIGTERM and SIGHUP act as Ctrl-C: the run drains, even if its terminal was closed.

    Ignored signals, such as SIGHUP under `nohup`, stay ignored.
    """
    terminals = {_device(number) for number in range(FILES) if os.isatty(number)}

    def hang_up(_: int, __: FrameType | None) -> None:
        # Output is discarded from now on; writing to a closed terminal would be an error.
        with open(os.devnull, "r+b", buffering=0) as nowhere:  # noqa: PTH123  a file number is wanted
            # Later copies, too: `isatty` is false for a closed terminal.
            for number in range(FILES):
                if _device(number) in terminals:
                    os.dup2(nowhere.fileno(), number)
        signal.raise_signal(signal.SIGINT)

    def end(_: int, __: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, hang_up if number == signal.SIGHUP else end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _device(number: int) -> int | None:
    """The device of an open file; None for other files, and if there is none."""
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else None
