"""Defers the signals that end a process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Ctrl-C, `kill`, and the end of the terminal. During a run Dagster handles SIGTERM like SIGINT.
ASKS_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Within this block termination signals are deferred; the last one received is raised after the block.

    Does nothing on threads other than the main one, which signals never interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ASKS_TO_END}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[-1])
