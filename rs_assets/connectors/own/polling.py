"""A source that is asked for new rows and cannot return the same ones again: they are spooled before they are read."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.locks import read_alone
from rs_assets.connectors.own.ahead import Ahead
from rs_assets.connectors.own.lines import Lines, OwnRow, batches_of
from rs_assets.connectors.own.plan import Offsets, Plan, Position, called, loaded
from rs_assets.connectors.own.reader import NumberedReader, fresh
from rs_assets.connectors.own.spool import Spool, spool_lost
from rs_assets.connectors.source import Known, SourceReader, Start
from rs_assets.errors import ConfigurationError, SourceReadError

# The only split of a poller.
POLL_SPLIT = "poll"


class PollingSource(ABC):
    """For a system that is asked for new rows and cannot return the same ones again: an API, a mailbox, a queue.

    A subclass has `poll`. The rows of a poll are written to disk together with the cursor that it returned, and only
    then read: once they are there, no crash loses or doubles one. A crash before that calls `poll` with the same cursor
    again. One process polls, never two at a time. It polls again when Spark has planned all rows of the last poll, so
    the spool holds one poll that was not read, and the newest `keep` that were: so far a pipeline can go back. Rows of
    one poll are held in memory.

    The object holds settings only, no connection: it is pickled and sent to other processes. A connection is made
    within `poll`; what it keeps in `self` lasts for the process. A new generation begins with the cursor None.

    `schema`: the fields, if `from_source` has no `schema=`. `every`: how long to wait after a poll without rows.
    `shared`: several queries of a pipeline may read the source, each of which polls with a cursor of its own; without
    it that is refused, because a system that hands out each row once would divide its rows among them.
    """

    name: str = ""
    schema: Any = None
    max_rows_per_batch: int | None = 100_000
    every: timedelta = timedelta(seconds=1)
    keep: int = 10
    shared: bool = False
    # Whether the next poll may come while Spark computes the last rows: for a source that has no use for `spooled`.
    polls_ahead: ClassVar[bool] = False

    @abstractmethod
    def poll(self, cursor: Any) -> tuple[Iterable[OwnRow], Any]:
        """New rows, and the cursor to go on with: JSON (text, number, list, dict). The first cursor is None.

        A row is a dict, or the text of a JSON object (str or bytes); one that does not fit the schema is a bad record.
        No rows end a run that reads all there is; return at most as many as the memory holds. Whatever it raises ends
        the run with SourceReadError.
        """

    def spooled(self, cursor: Any) -> None:  # noqa: B027  nothing to do for most
        """The batches with all rows before `cursor` are computed, so the system may forget them.

        Called before the poll that follows, and again with the last cursor when a query starts. With uploads, the rows
        are in the store by then.
        """

    def location(self) -> str:
        """Where the rows are, without credentials: a sink of the same location is refused. Empty: not known."""
        return ""

    def reader(self, name: str) -> SourceReader:
        """The reader of the step `name`."""
        return PollReader(name=name, max_rows_per_batch=self.max_rows_per_batch, source=self)


@dataclass(slots=True)
class PollPlan:
    """The plan of a poller, whose rows lie in `spool`."""

    source: PollingSource
    spool: Spool
    # The cursor of the next poll, the end of the spool to which it belongs (None: not taken from there yet), and the
    # monotonic time before which there is no other poll.
    _cursor: Any = None
    _at: int | None = None
    # Whether the system does not know yet that it may forget the rows before the cursor.
    _unconfirmed: bool = False
    _wait_until: float = 0.0
    _ahead: Ahead = field(default_factory=Ahead)

    def freeze(self) -> None:
        """A poller has no end that could be known before."""

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """The rows that are spooled and not planned, else those of a new poll."""
        self._ahead.wait()
        read = start.get(POLL_SPLIT, Position(0, 0)).next
        end = self.spool.end()
        if end < read:
            raise spool_lost(self.spool.folder, end)
        if end == read:
            end = self._polled(end, computed=True)
        if end == read:
            return start
        cut = end if rows is None else min(end, read + rows)
        if cut == end and self.source.polls_ahead:
            self._ahead.begin(lambda: self._polled(end))
        return {POLL_SPLIT: Position(0, cut)}

    def read(self, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  there is one split
        """The rows of the spool."""
        yield from self.spool.read(start, end)

    def committed(self, ends: Offsets) -> None:
        """Remove what no one needs any more."""
        if POLL_SPLIT in ends:
            self.spool.purge(ends[POLL_SPLIT].next, keep=self.source.keep)

    def _polled(self, end: int, *, computed: bool = False) -> int:
        """The end of the spool after another poll, if it is time for one and no other process has polled meanwhile.

        With `computed` the batches with all rows before `end` are computed. The process of an earlier run may still
        poll: it is waited for, and what it adds counts.
        """
        if self._at == end and not self._unconfirmed and time.monotonic() < self._wait_until:
            return end
        with read_alone(self.spool.folder):
            if (now := self.spool.end()) > end:
                return now
            if now < end:
                raise spool_lost(self.spool.folder, now)
            self._take_cursor(end)
            if computed:
                self._confirm()
            if time.monotonic() < self._wait_until:
                return end
            batches, cursor = self._found(end)
            if batches:
                end = self.spool.add(batches, cursor)
            else:
                self._wait_until = time.monotonic() + self.source.every.total_seconds()
            self._cursor, self._at = cursor, end
            self._unconfirmed |= bool(batches)
        return end

    def _take_cursor(self, end: int) -> None:
        """Take the cursor from the spool, unless it is known; a crash may have come before `spooled` was called."""
        if self._at != end:
            self._cursor, self._at = self.spool.cursor(), end
            self._unconfirmed = self._cursor is not None

    def _found(self, end: int) -> tuple[list[pa.RecordBatch], Any]:
        """The rows of a poll, numbered from `end`, and its cursor."""
        with called(self.source, "poll"):
            found = self.source.poll(self._cursor)
            if not isinstance(found, tuple) or len(found) != 2:
                raise SourceReadError(
                    f"{type(self.source).__name__}.poll must return rows and a cursor, not {str(found)[:100]}",
                    remedy="return rows, cursor",
                )
            rows, cursor = found
            if isinstance(rows, Lines):
                return [*rows.batches(POLL_SPLIT, end)], cursor
            return [*batches_of(POLL_SPLIT, enumerate(rows, end))], cursor

    def _confirm(self) -> None:
        """The batches of all rows in the spool are computed, and so uploaded, if the home may be lost."""
        if self._unconfirmed:
            with called(self.source, "spooled"):
                self.source.spooled(self._cursor)
            self._unconfirmed = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReader(NumberedReader):
    """The reader of a poller."""

    source: PollingSource = field(repr=False)

    def plan(self, folder: Path) -> Plan:
        """A plan of the source as it was given, with a spool in the query's folder."""
        return PollPlan(fresh(self.source), Spool(folder))

    def check(self, start: Start) -> Known:
        """One query may read it, and its spool must have what was polled and not read."""
        if len(start.logs) > 1 and not self.source.shared:
            raise ConfigurationError(
                f"{len(start.logs)} queries of the pipeline read the source {self.name!r}, and each would poll for"
                " itself",
                remedy="put .shuffle(2, strategy='delta') right after the source, so that one query reads it; or set"
                " shared = True in its class, if each poll with the same cursor finds the same rows",
                source=self.name,
            )
        for log in start.logs:
            read, spool = self.read_rows(log), self.spool(log)
            files = spool.files()
            if read and not any(first <= read <= last for first, last, _ in files):
                raise spool_lost(spool.folder, read)
        return start.known

    @staticmethod
    def read_rows(log: SourceLog) -> int:
        """The number of the first row that no committed batch has."""
        return loaded(log.committed).get(POLL_SPLIT, Position(0, 0)).next

    @staticmethod
    def spool(log: SourceLog) -> Spool:
        """The spool of the query that has this log."""
        return Spool(log.log.folder.parent / "own" / log.stored_name)
