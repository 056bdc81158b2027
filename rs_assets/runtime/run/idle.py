"""Advances time without input: windows by arrival time fire, and idle sides of a join are not waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from rs_assets.common.background import BackgroundFailures, PeriodicTask
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.run.last_rows import LastRows
from rs_assets.topology.nodes.timed import TimedState

# A tenth of a time is a short enough delay, and a control row costs a batch. The longest is for very long windows.
PARTS = 10
SHORTEST, LONGEST = timedelta(milliseconds=200), timedelta(minutes=10)


@dataclass(slots=True)
class IdleClock:
    """Moves the watermark of steps by arrival time to the clock while a query is idle and has state.

    Event-time windows are not affected: only their events determine event time.
    """

    queries: tuple[QueryRun, ...]
    tick: timedelta
    failures: BackgroundFailures = field(default_factory=BackgroundFailures)
    _seen: dict[str, int] = field(default_factory=dict)
    _loop: PeriodicTask | None = None

    @classmethod
    def over(cls, queries: Iterable[QueryRun], failures: BackgroundFailures | None = None) -> IdleClock:
        """A clock for those of `queries` that go by arrival time; it runs after `start`."""
        found = [(q, tick) for q in queries if (tick := _tick(q)) is not None]
        tick = min(max(min((tick for _, tick in found), default=SHORTEST), SHORTEST), LONGEST)
        return cls(tuple(q for q, _ in found), tick, failures or BackgroundFailures())

    def start(self) -> None:
        """Begin, on a thread of its own, if there is anything to do."""
        if self.queries:
            effect = "windows without new rows stay open, and timers do not fire"
            loop = PeriodicTask(
                self._look, name="rs-idle-clock", every=self.tick, failures=self.failures, effect=effect
            )
            self._loop = loop.start()

    def stop(self) -> None:
        """End; may be called twice."""
        if self._loop is not None:
            self._loop.stop()

    def _look(self) -> None:
        for query in self.queries:
            report = query.report
            if query.keeps_rows and report.rows_read == self._seen.get(query.plan.name, -1):
                query.move_watermark(datetime.now(UTC))
            self._seen[query.plan.name] = report.rows_read


def pass_time(queries: Iterable[QueryRun]) -> None:
    """Move the watermark of steps by arrival time, in queries that keep rows, to the clock: a run begins."""
    for query in queries:
        if _tick(query) is not None and query.keeps_rows:
            query.move_watermark(datetime.now(UTC))


def _tick(query: QueryRun) -> timedelta | None:
    """How often the time of arrival advances without rows; None if no step of the query goes by it."""
    steps = map(query.topology.__getitem__, query.plan.watermark_steps)
    ticks = (node.arrival_tick for node in steps if isinstance(node, TimedState))
    return min((tick for tick in ticks if tick is not None), default=None)


@dataclass(slots=True)
class IdleSplits:
    """Releases idle splits if no batch comes that would do so."""

    queries: tuple[QueryRun, ...]

    @property
    def shortest(self) -> timedelta | None:
        """The shortest idle timeout of a split; None if no query waits for splits."""
        return min((query.work.marks.by_split.idle_timeout for query in self.queries if query.work.marks), default=None)

    def look(self) -> None:
        """Check all queries once; a control row is sent if event time may advance."""
        for query in self.queries:
            at = query.work.marks.due() if query.work.marks is not None else None
            if at is not None:
                query.move_watermark(at)


@dataclass(slots=True)
class IdleSides:
    """Moves the watermark of a side that had no rows for `timeout` to those of the other sides of its query.

    Spark's watermark is that of the slowest side, so an idle one would hold back all others. It moves by their event
    time and not by the clock: later rows of the idle side are late only if they are older than the progress of the
    others.
    """

    queries: tuple[QueryRun, ...]
    timeout: timedelta
    last: LastRows = field(default_factory=LastRows)

    def look(self) -> None:
        """Check all queries once; a control row is sent for each idle side that lags behind the others.

        A side that waits until a table is loaded is not idle, nor is one with rows of a query that does.
        """
        for query in self.queries:
            if self.last.waits(query):
                continue
            heard = {gate: self.last.at(query, s) for gate, s in query.plan.feeding(query.topology).items()}
            silent = self._silent(heard)
            others = heard.keys() - silent
            # The progress of a side without rows since the start is unknown.
            if silent and others and others <= query.work.reached.keys():
                self._let_go(query, silent, others)

    def _let_go(self, query: QueryRun, silent: AbstractSet[str], others: AbstractSet[str]) -> None:
        """Move the watermarks of the `silent` gates to the least of the `others`, and none of them back."""
        delays = {side.gate: side.water_mark for side in query.plan.sides(query.topology)}
        reached = query.work.reached
        watermark = min(reached[gate] - delays[gate] for gate in others)
        for gate in sorted(silent):
            at = min(watermark + delays[gate], END_OF_TIME)
            if gate not in reached or reached[gate] < at:
                query.move_watermark(at, [gate])

    def _silent(self, heard: Mapping[str, float]) -> frozenset[str]:
        until = self.last.now() - self.timeout.total_seconds()
        return frozenset(gate for gate, at in heard.items() if at < until)
