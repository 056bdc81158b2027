"""Collects in parallel with the queries of a run, if no other process does: one thread a log and process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rs_assets.common.background import LOG
from rs_assets.connectors.collector.collecting import Collector, Fatal, collect
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.source import Watch


@dataclass(slots=True)
class Beside:
    """The thread that collects into one log, and how many queries want it."""

    folder: Path
    collector: Collector
    wanted: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self.thread = threading.Thread(target=self._run, daemon=True, name=f"rs-collect-{self.folder.name}")
        self.thread.start()

    def end(self) -> None:
        """Stop the thread and wait for it."""
        self.stop.set()
        if self.thread is not None:
            self.thread.join()

    def _run(self) -> None:
        try:
            collect(self.collector, LogWriter(self.folder), self.stop)
        except Fatal as error:
            LOG.error("a collector has ended: %s", error)


_BESIDE: Final[dict[Path, Beside]] = {}
_GUARD: Final = threading.Lock()


class CollectingWatch(Watch):
    """Lets a log be collected while a query reads it."""

    __slots__ = ("_begun", "_collector", "_folder")

    def __init__(self, folder: Path, collector: Collector | None) -> None:
        self._folder, self._collector = folder, collector
        self._begun = False

    def begin(self) -> None:
        """Start to collect, unless another query of the process has."""
        if self._collector is None or self._begun:
            return
        self._begun = True
        with _GUARD:
            beside = _BESIDE.get(self._folder)
            if beside is None:
                beside = _BESIDE[self._folder] = Beside(self._folder, self._collector)
                beside.start()
            beside.wanted += 1

    def close(self) -> None:
        """Stop to collect with the last query."""
        if not self._begun:
            return
        self._begun = False
        with _GUARD:
            beside = _BESIDE[self._folder]
            beside.wanted -= 1
            if not beside.wanted:
                _BESIDE.pop(self._folder).end()
