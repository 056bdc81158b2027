"""Removes segments of a collector's log that no one will read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from rs_assets.connectors.collector.log import CollectedLog, Segment
from rs_assets.connectors.own.plan import loaded

NOT_PURGED: Final = "messages that were read and are not needed any more stay on the disk"
PURGE_EVERY_S: Final = 60.0
Needed = Callable[[], Sequence[str | None]]


@dataclass(slots=True)
class LogPurge:
    """Removes a segment when all of its records were read, none is needed to go back, and `keep` has passed."""

    folder: Path
    keep: timedelta
    effect: str = NOT_PURGED
    _needed: Needed = list
    _purged: float = 0.0

    def keep_for(self, needed: Needed) -> None:
        """`needed()` are the offsets to which the pipeline can still go back; None is the beginning."""
        self._needed = needed

    def committed(self, ends: Sequence[str | None]) -> None:
        """Purge, but not too often."""
        if time.monotonic() - self._purged >= PURGE_EVERY_S:
            self.finish(ends)

    def finish(self, ends: Sequence[str | None]) -> None:
        """Purge now."""
        self._purged = time.monotonic()
        # Savepoints are read only if there is something to remove.
        if self._unneeded(ends):
            for segment in self._unneeded([*ends, *self._needed()]):
                segment.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is held."""

    def _unneeded(self, offsets: Sequence[str | None]) -> list[Segment]:
        """The segments before all `offsets` that are older than `keep`."""
        log = CollectedLog(self.folder)
        name, read = log.name(), [loaded(offset) for offset in offsets]
        if name is None or not all(name in each for each in read):
            return []
        needed = min((each[name].next for each in read), default=0)
        return purgeable(log.segments(), needed, before=time.time() - self.keep.total_seconds())


def purgeable(segments: Sequence[Segment], needed: int, *, before: float) -> list[Segment]:
    """The first segments that end before the record `needed` and were last written before the time `before`.

    The last segment stays, because it has the number of the next record.
    """
    found: list[Segment] = []
    for segment, following in pairwise(segments):
        if following.first > needed or segment.file.stat().st_mtime > before:
            break
        found.append(segment)
    return found
