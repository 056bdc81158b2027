"""Progress of the sinks of a query, recorded in the manifest during the run, since a killed run records nothing.

A start compares the record with the marker of each sink, and so finds a table that was lost or replaced by an old copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# The first rows of a sink are recorded at once, later ones at most this often, in seconds: each record syncs a file.
EVERY_S = 60.0


@dataclass(slots=True)
class SinkProgress:
    """`had` is the last batch with rows of each sink that stores its batches, -1 for none; `save` stores it."""

    had: dict[str, int]
    save: Callable[[Mapping[str, int]], None]
    _saved: float = field(default_factory=time.monotonic)

    def note(self, batch_id: int, rows: Mapping[str, int]) -> None:
        """Record the rows of a batch by sink; called before Spark commits it, so that Spark's log is never ahead."""
        written = [name for name, count in rows.items() if count and name in self.had]
        first = any(self.had[name] < 0 for name in written)
        self.had |= dict.fromkeys(written, batch_id)
        if first or (written and time.monotonic() - self._saved > EVERY_S):
            self.save(dict(self.had))
            self._saved = time.monotonic()
