"""Time goes on while input does not: windows by arrival time fire although nothing arrives."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pipelines.runtime.query import QueryRun
from pipelines.topology.window import WindowAggregate
from resources.window.event_time import send_control
from resources.window.spec import SessionWindow

# A tenth of a window late is soon enough, and a control row costs a batch.
PARTS = 10
SHORTEST = timedelta(milliseconds=200)


@dataclass(slots=True)
class IdleClock:
    """Moves the watermark of arrival-time windows to the clock while a query is idle and has windows open.

    Event-time windows are left alone: only their events know how late it is.
    """

    queries: tuple[QueryRun, ...]
    tick: timedelta
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def over(cls, queries: Iterable[QueryRun]) -> IdleClock:
        """A clock for those of `queries` that aggregate by arrival time; it runs once it is started."""
        found = [(q, node.window) for q in queries if (node := _arrival_window(q)) is not None]
        lengths = [window.gap if isinstance(window, SessionWindow) else window.size for _, window in found]
        return cls(tuple(q for q, _ in found), max(min(lengths, default=SHORTEST) / PARTS, SHORTEST))

    def start(self) -> None:
        """Begin, on a thread of its own, if there is anything to do."""
        if self.queries:
            self._thread = threading.Thread(target=self._run, name="rs-idle-clock", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; may be called twice."""
        self._stop.set()

    def _run(self) -> None:
        seen = {q.plan.name: -1 for q in self.queries}
        while not self._stop.wait(self.tick.total_seconds()):
            for query in self.queries:
                report = query.report
                if report.rows_open and report.rows_read == seen[query.plan.name]:
                    send_control(query.wiring.folder / "control", datetime.now(UTC))
                seen[query.plan.name] = report.rows_read


def _arrival_window(query: QueryRun) -> WindowAggregate | None:
    node = query.topology[query.plan.stateful] if query.plan.stateful else None
    return node if isinstance(node, WindowAggregate) and node.window.time_field is None else None
