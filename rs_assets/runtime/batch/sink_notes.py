"""What the sinks of a query have had, noted in the manifest while the run goes on: a run that is killed notes nothing.

A start holds the notes against what each sink remembers. So it finds that a table was lost, or replaced by an old copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# The first rows of a sink are noted at once, later ones at most so often, in seconds: a note is a file that is synced.
EVERY_S = 60.0


@dataclass(slots=True)
class SinkNotes:
    """`had` is the last batch with rows of each sink that remembers its batches, -1 for none; `save` stores it."""

    had: dict[str, int]
    save: Callable[[Mapping[str, int]], None]
    _saved: float = field(default_factory=time.monotonic)

    def note(self, batch_id: int, rows: Mapping[str, int]) -> None:
        """Take down what a batch gave to each sink; called before Spark commits it, so that its log is never ahead."""
        written = [name for name, count in rows.items() if count and name in self.had]
        first = any(self.had[name] < 0 for name in written)
        self.had |= dict.fromkeys(written, batch_id)
        if first or (written and time.monotonic() - self._saved > EVERY_S):
            self.save(dict(self.had))
            self._saved = time.monotonic()
