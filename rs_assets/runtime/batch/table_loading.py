"""Rows of a query that wait until tables are loaded, and the start of a query that loads them."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.checkpoint.held import NO_HOLD, Hold
from rs_assets.checkpoint.log import CheckpointLog


@dataclass(slots=True, kw_only=True)
class TableLoading:
    """Which rows of one query wait until tables are loaded, and whether its present start loads tables.

    `feeders` are the queries whose rows its tables need, or whose rows it passes on to a table of a later query;
    `writers` those whose rows it reads at all. `feeds` says that its present input is read at once, for a table of a
    later query.
    """

    log: CheckpointLog
    hold: Hold = NO_HOLD
    feeders: tuple[TableLoading, ...] = ()
    writers: tuple[TableLoading, ...] = ()
    feeds: bool = False
    loads: bool = False  # the present start loads tables, and ends with them
    _fed: bool = False  # the feeders had read all of their input when it was started

    @property
    def held(self) -> frozenset[str]:
        """The sources whose rows wait until a table is loaded."""
        return self.hold.held(self.log)

    @property
    def open(self) -> bool:
        """Whether tables that streams wait for, its own or those of a later query, lack rows that it is to read."""
        return self.feeds or bool(self.held)

    @property
    def awaited(self) -> bool:
        """Whether rows that it would have wait until a table is loaded, here or in the queries whose rows it reads."""
        return self.open or any(writer.awaited for writer in self.writers)

    def begin(self) -> None:
        """Note, at a start of the query, whether that loads tables."""
        self.hold.begin(self.log)
        self.loads, self._fed = self.open, self._feeders_done

    def end(self) -> frozenset[str] | None:
        """The sources whose rows wait no more, after a start that has loaded tables; None while a feeder still loads.

        If the feeders have written rows since that start, these are to be read first, and no source is released.
        """
        if not self._feeders_done:
            return None
        if not self._fed:
            return frozenset()
        released = self.held
        if released:
            self.hold.end(self.log)
        else:
            self.feeds = False
        return released

    @property
    def _feeders_done(self) -> bool:
        return not any(feeder.open for feeder in self.feeders)
