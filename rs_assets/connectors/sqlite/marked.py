"""What writers into SQLite share: their marks, read from a file that only a commit creates."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.connectors.sqlite import ledger
from rs_assets.connectors.sqlite.database import connected
from rs_assets.errors import SinkError


class MarkedWriter:
    """The last batches of a writer whose rows and marks are one transaction in the file `path`."""

    __slots__ = ()

    name: str
    path: str | Path
    progress: ProgressGuard

    def location(self) -> str:
        """The place of the rows."""
        raise NotImplementedError

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is there; LeaseLostError if another driver has written since."""
        mark.check(self.last_writer(mark), where=self.location())
        return self._last(mark) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The batch of the marker, -1 for none."""
        return self._last(mark)

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the file."""
        with self._looking() as database:
            return ledger.last_writer(database, mark)

    @contextmanager
    def _looking(self) -> Iterator[sqlite3.Connection]:
        """The existing database, or an empty one if it does not exist."""
        if Path(self.path).exists():
            with connected(str(self.path), SinkError) as database:
                yield database
        else:
            with closing(sqlite3.connect(":memory:")) as empty:
                yield empty

    def _last(self, mark: BatchMark) -> int:
        with self._looking() as database:
            return self._hold(mark, ledger.last_batch(database, mark))

    def _hold(self, mark: BatchMark, batch: int) -> int:
        return self.progress.advance(mark, batch, step=self.name, place=self.location())
