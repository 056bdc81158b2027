"""The plan of a table's changes for Spark: rows land before they are planned, and are read from the disk.

    landing:   part 1 | part 2 | part 3 | ...
    Spark:              part 1 | part 2 | ...

While Spark computes a batch, the part after it lands: one, and no more. It is on disk for good before the database may
forget it, as any other, so a kill at any moment finds it there, or lands it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from rs_assets.common.locks import read_alone
from rs_assets.connectors.changes.landed import Landed, landed_lost, purge_others
from rs_assets.connectors.own.ahead import Ahead
from rs_assets.connectors.own.plan import Offsets, Position

# The pause after a look at the log that found nothing.
PAUSE_S: Final = 0.2


class Landing(Protocol):
    """What brings rows of one table, and its changes, to disk."""

    def flushed(self) -> int:
        """The end of the server's log."""
        ...

    def land(self, landed: Landed, split: str, until: int | None) -> None:
        """Land the table as it is if nothing has landed, else changes up to the position `until` (None: now)."""
        ...


@dataclass(slots=True)
class ChangesPlan:
    """Plans the changes of a table. The only split is called as the folder below `folder` that has its rows.

    `split` is the folder of a generation that begins; one that was restored goes on in the folder of its offsets.
    `keep` is how long landed rows stay after they were read.
    """

    landing: Landing
    folder: Path
    split: str
    keep: timedelta
    _until: int | None = None
    _wait_until: float = 0.0
    _ahead: Ahead = field(default_factory=Ahead)

    def freeze(self) -> None:
        """Leave what is committed from now on to the next run."""
        self._until = self.landing.flushed()

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """The rows that have landed and are not planned, else those that land now: whole transactions.

        A snapshot is divided by `rows`; a transaction is not, so a batch with a larger one has more rows. What failed
        while it landed ahead is raised here, when the batch before it is computed.
        """
        self._ahead.wait()
        split = next(iter(start), self.split)
        landed, read = Landed(self.folder / split), start.get(split, Position(0, 0)).next
        end = landed.end()
        if end < read:
            raise landed_lost(landed.folder, end)
        if landed.reached() is None:
            self._land(landed, None)
            end = landed.end()
        if end == read and time.monotonic() >= self._wait_until:
            self._land(landed, self._until)
            end = landed.end()
            self._wait_until = time.monotonic() + PAUSE_S if end == read else 0.0
        if end == read:
            return start
        cut = _cut(landed, read, end, rows)
        if cut == end:
            self._ahead.begin(lambda: self._land(landed, self._until))
        return {split: Position(0, cut)}

    def read(self, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows from the disk."""
        yield from Landed(self.folder / split).read(start, end)

    def committed(self, ends: Offsets) -> None:
        """Remove what is older than `keep` and was read."""
        for split, at in ends.items():
            landed = Landed(self.folder / split)
            landed.purge(at.next, older_than=self.keep)
            purge_others(landed.folder, older_than=self.keep)

    def _land(self, landed: Landed, until: int | None) -> None:
        """Land what follows, while no other process does: that of an earlier run may not have ended."""
        with read_alone(landed.folder):
            self.landing.land(landed, landed.folder.name, until)


def _cut(landed: Landed, read: int, end: int, rows: int | None) -> int:
    """The end of a batch of about `rows` rows."""
    if rows is None:
        return end
    cut = read
    for part in landed.parts(read):
        if part.end - read > rows:
            return max(cut, min(part.end, read + rows)) if part.snapshot else part.end if cut == read else cut
        cut = part.end
    return cut
