"""What Spark measured in the batch that has just been computed, before it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.source.admit import DEAD, ROWS

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DROPPED, STATE_ROWS = "numRowsDroppedByWatermark", "numTotalStateRows"


@dataclass(frozen=True, slots=True)
class Observed:
    """The counters of one gate."""

    rows: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMetrics:
    """How much was `dropped` as late (for aggregates Spark counts groups, not rows), and the `rows` left in state."""

    dropped: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class BatchExecution:
    """The JVM's execution of the current batch. Public progress events come after the commit: too late for us."""

    execution: Any

    @classmethod
    def of(cls, query: StreamingQuery) -> BatchExecution:
        """The execution that `query` is in."""
        return cls(query._jsq.streamingQuery().lastExecution())  # noqa: SLF001  there is no public way

    def observed(self, gate: str) -> Observed | None:
        """The counters of `gate`, None if it has none in this query."""
        row = self.execution.observedMetrics().get(gate)
        if row.isEmpty():
            return None
        values = row.get()
        return Observed(int(values.getAs(ROWS)), int(values.getAs(DEAD)))

    def state(self) -> StateMetrics:
        """The sums over the stateful operators, in one walk over the plan: each step of it is a call to the JVM."""
        dropped = rows = 0
        for plan in _walk(self.execution.executedPlan()):
            metrics = plan.metrics()
            if metrics.contains(STATE_ROWS):
                rows += int(metrics.apply(STATE_ROWS).value())
                dropped += int(metrics.apply(DROPPED).value()) if metrics.contains(DROPPED) else 0
        return StateMetrics(dropped=dropped, rows=rows)


def _walk(plan: Any) -> Iterator[Any]:
    """A physical plan's nodes, from the top."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _walk(children.apply(index))
