"""Time goes on while input does not: windows by arrival time fire although nothing arrives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from rs_assets.engine.background import Repeated, Troubles
from rs_assets.engine.window.event_time import send_control
from rs_assets.engine.window.spec import SessionWindow
from rs_assets.pipeline.runtime.query import QueryRun
from rs_assets.pipeline.topology.window import WindowAggregate

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
    troubles: Troubles = field(default_factory=Troubles)
    _seen: dict[str, int] = field(default_factory=dict)
    _loop: Repeated | None = None

    @classmethod
    def over(cls, queries: Iterable[QueryRun], troubles: Troubles | None = None) -> IdleClock:
        """A clock for those of `queries` that aggregate by arrival time; it runs once it is started."""
        found = [(q, node.window) for q in queries if (node := _arrival_window(q)) is not None]
        lengths = [window.gap if isinstance(window, SessionWindow) else window.size for _, window in found]
        tick = max(min(lengths, default=SHORTEST) / PARTS, SHORTEST)
        return cls(tuple(q for q, _ in found), tick, troubles or Troubles())

    def start(self) -> None:
        """Begin, on a thread of its own, if there is anything to do."""
        if self.queries:
            effect = "windows that nothing arrives for stay open"
            loop = Repeated(self._look, name="rs-idle-clock", every=self.tick, troubles=self.troubles, effect=effect)
            self._loop = loop.start()

    def stop(self) -> None:
        """End; may be called twice."""
        if self._loop is not None:
            self._loop.stop()

    def _look(self) -> None:
        for query in self.queries:
            report = query.report
            if report.rows_open and report.rows_read == self._seen.get(query.plan.name, -1):
                send_control(query.wiring.folder / "control", datetime.now(UTC))
            self._seen[query.plan.name] = report.rows_read


def _arrival_window(query: QueryRun) -> WindowAggregate | None:
    node = query.topology[query.plan.stateful] if query.plan.stateful else None
    return node if isinstance(node, WindowAggregate) and node.window.time_field is None else None
