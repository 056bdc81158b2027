"""Advances event time with the wall clock while there is no input, if requested."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rs_assets.operators.window.durations import EPOCH
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.run.last_rows import LastRows
from rs_assets.topology.nodes.timed import Side, TimedState


@dataclass(slots=True)
class IdleTime:
    """Advances the event time of a query without rows for `timeout` with the wall clock.

    So its windows close as if time had advanced in the input. Later rows before the watermark of that time are late. A
    query without state, one that never had a row, or one whose rows wait until a table is loaded, is not affected.
    """

    queries: tuple[QueryRun, ...]
    timeout: timedelta
    last: LastRows = field(default_factory=LastRows)
    # For each query the time of its last row, and its watermark when the query became idle.
    _reached: dict[str, tuple[float, datetime]] = field(default_factory=dict)

    def look(self) -> None:
        """Check all queries once; a control row is sent for each that is idle and has state."""
        for query in self.queries:
            if self.last.waits(query):
                continue
            heard = self.last.at(query, query.plan.sources)
            silence = timedelta(seconds=self.last.now() - heard)
            if silence >= self.timeout and query.keeps_rows:
                self._go_on(query, heard, silence)

    def _go_on(self, query: QueryRun, heard: float, silence: timedelta) -> None:
        known, watermark = self._reached.get(query.plan.name, (None, None))
        if known != heard:
            watermark = self._watermark(query)
            if watermark is None or watermark <= EPOCH:
                return
            self._reached[query.plan.name] = heard, watermark
        assert watermark is not None  # known when it was kept
        for side in self._sides(query):
            query.move_watermark(watermark + silence + side.water_mark, [side.gate])

    def _watermark(self, query: QueryRun) -> datetime | None:
        planned = query.log.offsets(query.log.last_committed())
        return planned.watermark if planned is not None else None

    def _sides(self, query: QueryRun) -> list[Side]:
        """The inputs with event times; arrival time advances by itself."""
        steps = (query.topology[name] for name in query.plan.watermark_steps)
        timed = [node for node in steps if isinstance(node, TimedState) and node.goes_by_time]
        return [side for node in timed for side in node.sides if side.time_field]
