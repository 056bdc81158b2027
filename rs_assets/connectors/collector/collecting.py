"""Runs a collector: waits until it is the only one of its log, and begins again after a failure."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import orjson

from rs_assets.common.background import LOG
from rs_assets.common.files import write_atomically
from rs_assets.connectors.collector.writing import LogWriter

STATE: Final = "collector.json"
# How often a collector that waits for another one looks, and the pauses after failures, in seconds.
LOOK_S: Final = 0.5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


class Collector(Protocol):
    """Receives messages of one system."""

    def collect(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        """Write what comes to `log`, and only then acknowledge it, until `stop` is set.

        `ready` is called when messages are taken. An error ends it: it is called again after a pause, unless it is
        Fatal.
        """
        ...


class Fatal(Exception):
    """Raised by a collector that must not be called again; its cause is the error."""


@dataclass(frozen=True, slots=True)
class CollectorState:
    """What the collector of a log does: "waiting" for another one, "connecting", "collecting", "failing", "stopped"."""

    state: str
    problem: str = ""
    pid: int = 0
    host: str = ""

    @classmethod
    def of(cls, folder: Path) -> CollectorState:
        """The state that the last collector has noted; "never started" without one."""
        with suppress(FileNotFoundError, orjson.JSONDecodeError, TypeError):
            return cls(**orjson.loads((folder / STATE).read_bytes()))
        return cls("never started")


def collect(
    collector: Collector, log: LogWriter, stop: threading.Event, told: Callable[[str, str], None] = lambda *_: None
) -> None:
    """Collect into `log` until `stop` is set; another collector of the log is waited for.

    `told(state, problem)` is called when the state changes. Fatal if the collector must not go on.
    """
    if not log.acquire():
        told("waiting", "")
        while not log.acquire():
            if stop.wait(LOOK_S):
                return
    with log:
        _collect(collector, log, stop, told)


def _collect(collector: Collector, log: LogWriter, stop: threading.Event, told: Callable[[str, str], None]) -> None:
    pause = FIRST_PAUSE_S

    def note(state: str, problem: str = "") -> None:
        told(state, problem)
        _note(log.folder, CollectorState(state, problem, os.getpid(), socket.gethostname()))

    def ready() -> None:
        nonlocal pause
        pause = FIRST_PAUSE_S
        note("collecting")

    while not stop.is_set():
        note("connecting")
        try:
            collector.collect(log, ready, stop)
        except Fatal:
            raise
        # Of any kind: a run would go on without its collector, and no message come.
        except Exception as error:  # noqa: BLE001
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            note("failing", problem)
            LOG.warning("a collector has stopped and begins again in %.1f s: %s", pause, problem)
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
    note("stopped")


def _note(folder: Path, state: CollectorState) -> None:
    body = {name: getattr(state, name) for name in CollectorState.__slots__}
    # A full disk must not end what can still answer that it is full.
    with suppress(OSError):
        write_atomically(folder / STATE, orjson.dumps(body), durable=False)
