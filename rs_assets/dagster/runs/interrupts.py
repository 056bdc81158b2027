"""Which of the signals that ask to end the run of a terminal hears, and what it makes of them."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# As many open files as a terminal is looked for among.
FILES = 256


@contextmanager
def heard_at_terminal() -> Iterator[None]:
    """Within this SIGTERM and SIGHUP do what Ctrl-C does: the run drains, also where its terminal was closed.

    What is ignored, as SIGHUP is under `nohup`, stays so.
    """
    terminals = {_device(number) for number in range(FILES) if os.isatty(number)}

    def hang_up(_: int, __: FrameType | None) -> None:
        # What is shown goes nowhere from now on; written to a terminal that is gone it would be an error.
        with open(os.devnull, "r+b", buffering=0) as nowhere:  # noqa: PTH123  a file number is wanted
            # Copies that were made since, too: what is gone says of none that it is a terminal.
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
    """The device that an open file is; None for other files, and without one."""
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else None
