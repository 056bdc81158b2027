"""What the batches of a run add up to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from rs_assets.compile.source import POISON
from rs_assets.records.admit import step_of
from rs_assets.runtime.report import BatchProgress
from rs_assets.topology.nodes.table import KEY


@dataclass(slots=True)
class RunSums:
    """The batches of a run, by query: how many, their seconds, the latest one, and the rows at each of its steps.

    >>> from rs_assets.runtime.report import BatchProgress
    >>> sums, facts = (
    ...     RunSums(),
    ...     {"steps": frozenset(), "rows_dead": 1, "rows_late": 1, "rows_out": {"t": 6}, "seconds": 0.5},
    ... )
    >>> gates = {"l": (6, 0), "r": (4, 0), "r/poison": (4, 1), "j.left": (6, 0), "j.right": (3, 0)}
    >>> gates |= {"t.key": (5, 1), "t": (4, 2)}
    >>> sums.add(BatchProgress(query="j", batch_id=0, rows_in=10, gates=gates, late={"j": 1}, **facts))
    >>> [(sums.rows("j", "in", step), sums.rows("j", "dead", step)) for step in ("l", "r", "j", "t")]
    [(6, 0), (4, 1), (9, 0), (5, 3)]
    >>> sums.rows("j", "late", "j"), sums.rows("j", "out", "t"), sums.rows("j", "in")
    (1, 6, 10)
    """

    latest: dict[str, BatchProgress] = field(default_factory=dict)
    first: dict[str, BatchProgress] = field(default_factory=dict)
    batches: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, progress: BatchProgress) -> None:
        """Add a finished batch; the rows of one that is counted, only where sinks got them."""
        query = progress.query
        self.latest[query] = progress
        self.first.setdefault(query, progress)
        self.batches[query] += 1
        self.seconds[query] += progress.seconds
        for sink, rows in progress.rows_out.items():
            self._add(query, sink, {"out": rows})
        if progress.counted:
            return
        self._add(query, "", {"in": progress.rows_in + progress.rows_shuffled})
        for gate, (rows, dead) in progress.gates.items():
            # Records on which a later step fails, and those whose keys were judged, were counted when they came.
            came = 0 if gate.endswith(POISON) or f"{gate}{KEY}" in progress.gates else rows
            self._add(query, step_of(gate.removesuffix(POISON)), {"in": came, "dead": dead})
        for step, (rows, failed) in progress.expectations.items():
            self._add(query, step, {"in": rows, "failed": failed})
        for step, rows in progress.late.items():
            self._add(query, step, {"late": rows})

    def rows(self, query: str, kind: str, step: str = "") -> int:
        """The rows of `kind` at a step of the query; without `step` those it has read.

        The kinds are "in", "dead", "failed" (an expectation), "late" and "out".
        """
        return self._rows[query, step, kind]

    def gated(self, query: str, step: str) -> bool:
        """Whether the rows that came to `step` were counted."""
        return (query, step, "in") in self._rows

    def _add(self, query: str, step: str, counts: Mapping[str, int]) -> None:
        self._rows.update({(query, step, kind): rows for kind, rows in counts.items()})
