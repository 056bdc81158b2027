"""Spark's metrics of the batch that has just been computed, before it is committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from rs_assets.catalog.batch_times import EventTimes
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.splits import CAME_LATE, LATEST, splits_metric
from rs_assets.records.admit import DEAD, ROWS, SHARED
from rs_assets.spark.processor.session import package_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DROPPED, STATE_ROWS, STATE_BYTES = "numRowsDroppedByWatermark", "numTotalStateRows", "stateMemory"
WATERMARK = "EventTimeWatermark"
CHANGED = ("numUpdatedStateRows", "numRemovedStateRows")


@dataclass(frozen=True, slots=True)
class Observed:
    """The counters of one gate: incoming rows, rejected rows, and the rejected rows that another query counts."""

    rows: int
    dead: int
    shared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMetrics:
    """How much was `dropped` as late (for aggregates Spark counts groups, not rows), and the `rows` left in state.

    `size`: memory used by state, in bytes. `moved`: rows of state were added, changed or removed.
    """

    dropped: int = 0
    rows: int = 0
    size: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class BatchExecution:
    """The JVM's execution of the current batch. Public progress events come after the commit, which is too late."""

    execution: Any

    @classmethod
    def of(cls, query: StreamingQuery) -> BatchExecution:
        """The current execution of `query`."""
        return cls(query._jsq.streamingQuery().lastExecution())  # noqa: SLF001  there is no public way

    def observed(self, gate: str) -> Observed | None:
        """The counters of `gate`, None if it has none in this query."""
        row = self.execution.observedMetrics().get(gate)
        if row.isEmpty():
            return None
        values = row.get()
        dead = int(values.getAs(DEAD))
        # Only a gate that lets a batch continue rejects rows, and only some of those have the third counter.
        shared = int(values.getAs(SHARED)) if dead and values.size() > len((ROWS, DEAD)) else 0
        return Observed(int(values.getAs(ROWS)), dead, shared)

    def judged(self, spark: SparkSession, source: str, *, shared: bool) -> Observed | None:
        """The counters of a source whose stream judges its records; None if there is none of that name.

        Reads what the plan has left unread, and so may raise what a bad record raises. `shared`: another query counts
        the bad ones as well.
        """
        package = package_in(spark)
        found = package.JsonLines.judged(self.execution, source) if package is not None else None
        if found is None:
            return None
        rows, dead = map(int, found)
        return Observed(rows, dead, dead if shared else 0)

    def latest(self, gate: str) -> Mapping[str, int]:
        """The greatest event time of each split at `gate`, in microseconds."""
        row = self.execution.observedMetrics().get(splits_metric(gate))
        return {} if row.isEmpty() else orjson.loads(row.get().getAs(LATEST))

    def late(self, gate: str) -> int:
        """How many rows at `gate` were late by the records before them; 0 if lateness is not judged by record."""
        row = self.execution.observedMetrics().get(splits_metric(gate))
        # The count comes after the times, if it is there.
        return int(row.get().getAs(CAME_LATE)) if not row.isEmpty() and row.get().size() > 1 else 0

    def move_event_time(self, at: int | None) -> None:
        """Set the greatest event time of the batch to `at` (microseconds); None: as for a batch without rows.

        The watermark after the batch follows from that; it never goes back.
        """
        for plan in _walk(self.execution.executedPlan()):
            if plan.nodeName() == WATERMARK:
                stats = plan.eventTimeStats()
                stats.reset()
                if at is not None:
                    stats.add(at // 1000)

    def measured(self, spark: SparkSession) -> tuple[StateMetrics, Mapping[str, EventTimes]]:
        """The sums over the stateful operators, and the rows at each watermark operator, by the operator's id.

        Watermark operators without rows are missing.
        """
        package = package_in(spark)
        if package is None:
            return self.walked()
        found = orjson.loads(package.ExecutedPlan.measured(self.execution.executedPlan()))
        state = StateMetrics(
            dropped=found["dropped"], rows=found["rows"], size=found["bytes"], moved=found["changed"] > 0
        )
        times = found["times"].items()
        return state, {step: EventTimes(rows, _time(least), _time(most)) for step, (rows, least, most) in times}

    def walked(self) -> tuple[StateMetrics, Mapping[str, EventTimes]]:
        """The same in a session without the project's own jar: each step over the plan is some calls of the JVM."""
        dropped = rows = size = changed = 0
        times = dict[str, EventTimes]()
        for plan in _walk(self.execution.executedPlan()):
            if plan.nodeName() == WATERMARK:
                seen = plan.eventTimeStats().value()
                if rows_seen := seen.count():
                    times[str(plan.nodeId().toString())] = EventTimes(rows_seen, _time(seen.min()), _time(seen.max()))
                continue
            metrics = plan.metrics()
            if metrics.contains(STATE_ROWS):
                rows += int(metrics.apply(STATE_ROWS).value())
                size += int(metrics.apply(STATE_BYTES).value())
                changed += sum(int(metrics.apply(name).value()) for name in CHANGED if metrics.contains(name))
            # Sessions drop late rows in a separate operator without state.
            if metrics.contains(DROPPED):
                dropped += int(metrics.apply(DROPPED).value())
        return StateMetrics(dropped=dropped, rows=rows, size=size, moved=changed > 0), times


def _time(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


def _walk(plan: Any) -> Iterator[Any]:
    """The nodes of a physical plan, from the top."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _walk(children.apply(index))


@contextmanager
def planning_held(query: StreamingQuery) -> Iterator[None]:
    """Spark plans no batch of `query` meanwhile: it plans under a lock, which its own tests hold as well."""
    lock = query._jsq.streamingQuery().awaitProgressLock()  # noqa: SLF001  there is no public way
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def forget_look(query: StreamingQuery) -> None:
    """Let `found_nothing` report only looks at the sources that begin from now on, as `processAllAvailable` does."""
    with planning_held(query):
        found = getattr(query._jsq.streamingQuery(), "noNewData_$eq")  # noqa: SLF001  there is no public way
        found(False)  # noqa: FBT003  Spark's own method


def found_nothing(query: StreamingQuery) -> bool:
    """Whether Spark has looked at the sources of `query` and found nothing new."""
    return bool(query._jsq.streamingQuery().noNewData())  # noqa: SLF001  there is no public way
