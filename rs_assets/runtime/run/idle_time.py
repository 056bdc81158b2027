"""Advances event time with the wall clock while there is no input, if requested."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rs_assets.operators.window.durations import EPOCH
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.topology.nodes.timed import Side, TimedState


@dataclass(slots=True)
class IdleTime:
    """Advances the event time of a query without rows for `timeout` with the wall clock.

    So its windows close as if time had advanced in the input. Later rows before the watermark of that time are late. A
    query without state, one that never had a row, or one whose rows wait until a table is loaded, is not affected.
    `now` gives seconds that never go back.
    """

    queries: tuple[QueryRun, ...]
    timeout: timedelta
    now: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    # For each query the time of its last row, and its watermark when the query became idle.
    _reached: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    # When a query was last seen to wait for rows that wait until a table is loaded.
    _awaited: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A query without any rows is idle from now on."""
        self._began = self.now()

    def look(self) -> None:
        """Check all queries once; a control row is sent for each that is idle and has state."""
        for query in self.queries:
            if query.awaits:
                self._awaited[query.plan.name] = self.now()
                continue
            heard = max(query.work.heard.values(), default=self._began)
            heard = max(heard, self._awaited.get(query.plan.name, heard))
            silence = timedelta(seconds=self.now() - heard)
            if silence >= self.timeout and query.keeps_rows:
                self._go_on(query, heard, silence)

    def _go_on(self, query: QueryRun, heard: float, silence: timedelta) -> None:
        known, watermark = self._reached.get(query.plan.name, (None, None))
        if known != heard:
            watermark = self._watermark(query)
            if watermark is None or watermark <= EPOCH:
                return
            self._reached[query.plan.name] = heard, watermark
        assert watermark is not None  # noqa: S101  known when it was kept
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
