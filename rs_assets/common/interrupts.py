"""Signals that ask a process to end, and a while in which none of them comes between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Ctrl-C, `kill`, and the end of the terminal. Dagster lets SIGTERM do what SIGINT does while a run goes on.
ASKS_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Within this no signal that asks to end raises anything; the last that came is raised behind it.

    On threads that are not the main one, which no signal interrupts, it does nothing.
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
