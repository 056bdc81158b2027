"""Rows that all readers of a durable shuffle have behind them go, while the pipeline runs and at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.home import Home
from rs_assets.pipeline.compile.plan import QueryPlan
from rs_assets.pipeline.compile.shuffle import place_of
from rs_assets.pipeline.runtime.journal import JournalEntry
from rs_assets.pipeline.topology.shuffle import ShuffleRead
from rs_assets.pipeline.topology.topology import Topology

NOT_PURGED = "rows of a durable shuffle that nobody needs any more stay"
# A purge is a commit of its own; rows that wait a little do no harm.
PURGE_EVERY = timedelta(seconds=30)


@dataclass(slots=True)
class ShufflePurge:
    """Follows the journal: what it has written, Spark has committed. `logs` are those of the queries, by name."""

    topology: Topology
    plans: Sequence[QueryPlan]
    logs: Mapping[str, CheckpointLog]
    home: Home
    _purged: float = 0.0

    def __call__(self, entries: Sequence[JournalEntry]) -> None:  # noqa: ARG002  only that there are some
        """Purge, but not too often; RsError if the place does not let it."""
        if time.monotonic() - self._purged >= PURGE_EVERY.total_seconds():
            self.purge()

    def purge(self) -> None:
        """Purge now."""
        self._purged = time.monotonic()
        for node in (n for n in self.topology if isinstance(n, ShuffleRead)):
            readers = [plan.name for plan in self.plans if node.name in plan.sources]
            offsets = [self._committed(name, node.name) for name in readers]
            if all(offset != "-" for offset in offsets):
                place_of(node, self.home).purge(offsets)

    def _committed(self, query: str, source: str) -> str:
        log = self.logs[query]
        offsets = log.offsets(log.last_committed())
        return offsets.sources.get(source, "-") if offsets else "-"
