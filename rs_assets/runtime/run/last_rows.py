"""When the sources of a query had their last row, for what counts them as idle after a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rs_assets.runtime.batch.query import QueryRun


@dataclass(slots=True)
class LastRows:
    """The times of the last rows, on the clock `now`: in seconds that never go back.

    A source without any rows has had its last one at the start. A query is not silent while its rows wait until a table
    is loaded, nor while those of a query do whose rows it reads.
    """

    now: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    # When a query was last seen to wait for a table.
    _awaited: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The start."""
        self._began = self.now()

    def waits(self, query: QueryRun) -> bool:
        """Whether rows of `query` wait until a table is loaded; to be asked before `at`."""
        waits = query.tables.awaited
        if waits:
            self._awaited[query.plan.name] = self.now()
        return waits

    def at(self, query: QueryRun, sources: Iterable[str]) -> float:
        """The time of the last row of any of `sources`, or of the end of their wait if that came later."""
        heard = (query.work.heard.get(source, self._began) for source in sources)
        return max(self._awaited.get(query.plan.name, self._began), *heard)
