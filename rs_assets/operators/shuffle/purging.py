"""Purges the rows that all readers of a durable shuffle have passed, while the pipeline runs and at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from rs_assets.operators.shuffle.base import ShufflePlace

NOT_PURGED = "rows of a durable shuffle that are not needed any more stay"
# A purge is a commit of its own; a delay does no harm.
PURGE_EVERY = timedelta(seconds=30)


@dataclass(slots=True)
class ShufflePurge:
    """Purges a shuffle up to the positions of the queries that read it."""

    place: ShufflePlace
    effect: str = NOT_PURGED
    _purged: float = 0.0

    def committed(self, ends: Sequence[str | None]) -> None:
        """Purge, but not too often; RsError if that fails."""
        if time.monotonic() - self._purged >= PURGE_EVERY.total_seconds():
            self.finish(ends)

    def finish(self, ends: Sequence[str | None]) -> None:
        """Purge now."""
        self._purged = time.monotonic()
        offsets = [end for end in ends if end is not None]
        if len(offsets) == len(ends):
            self.place.purge(offsets)

    def close(self) -> None:
        """Nothing is held."""
