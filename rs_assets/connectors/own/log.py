"""A source of rows in a log: splits whose rows have numbers and can be read again by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from rs_assets.connectors.own.lines import Numbered, OwnRow, batches_of
from rs_assets.connectors.own.plan import Offsets, Plan, Position, called, loaded
from rs_assets.connectors.own.reader import NumberedReader, fresh, within
from rs_assets.connectors.source import BEGIN_ANEW, Ends, Known, Lag, SourceReader, Start, sealed_error
from rs_assets.errors import DataLossError, SourceReadError


class LogSource(ABC):
    """Exactly once, for a log with splits whose rows have numbers and can be read again: a topic, a stream, a journal.

    A subclass has `ends` and `read`; the others have defaults. The object holds settings only, no connection: it is
    pickled and sent to other processes, and each of them begins with a copy of what was given to `from_source`. So a
    connection is made within a method; what a method keeps in `self` lasts for the process. Methods may raise anything:
    that ends the run with SourceReadError, before anything is committed.

    `schema`: the fields, if `from_source` has no `schema=`. `bounded`: the log does not grow any more; its end closes
    all windows. `max_rows_per_batch`: None for all rows that are there. `gaps`: not every number has a row, so
    only `begins` shows that a row was lost.
    """

    name: str = ""
    schema: Any = None
    bounded: bool = False
    max_rows_per_batch: int | None = 100_000
    gaps: bool = False

    @abstractmethod
    def ends(self) -> Mapping[str, int]:
        """The number of the next row that each split will get: as many as it has had, if rows are counted from 0.

        It never goes back. Splits may be added.
        """

    @abstractmethod
    def read(self, split: str, start: int, end: int) -> Iterable[OwnRow | tuple[int, OwnRow]]:
        """The rows `start` up to `end`, without `end`, in order; the same ones each time.

        A row is a dict, or the text of a JSON object (str or bytes); one that does not fit the schema is a bad record.
        There must be `end - start` of them, unless `gaps` says that numbers are missing: then yield `(number, row)`.
        """

    def begins(self) -> Mapping[str, int]:
        """The number of the first row that each split still has; 0 for splits that are left out.

        A log that removes old rows must override it: it is how lost rows are found if numbers have gaps. There it must
        keep the last row that was read, because a gap before the first row looks like removed rows.
        """
        return {}

    def cut(self, split: str, start: int, end: int, rows: int) -> int:  # noqa: ARG002  for subclasses
        """The end of a batch from `start` that has about `rows` rows: with `gaps` only a subclass can know it."""
        return end if self.gaps else min(end, start + rows)

    def location(self) -> str:
        """Where the rows are, without credentials: a sink of the same location is refused. Empty: not known."""
        return ""

    def reader(self, name: str) -> SourceReader:
        """The reader of the step `name`."""
        return LogReader(name=name, max_rows_per_batch=self.max_rows_per_batch, source=self)


@dataclass(slots=True)
class LogPlan:
    """The plan of a log."""

    source: LogSource
    _until: Mapping[str, int] | None = None

    def freeze(self) -> None:
        """The run ends at what is there now."""
        self._until = ends_of(self.source)

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """Up to the ends, or `rows` rows shared by the splits that have new ones."""
        ends = ends_of(self.source) if self._until is None else self._until
        begins = begins_of(self.source)
        check_there(start, ends, begins)
        since = {split: start.get(split, Position(begins.get(split, 0), begins.get(split, 0))) for split in ends}
        new = sorted((end - since[split].next, split) for split, end in ends.items() if end > since[split].next)
        after, left = dict(start), rows
        for place, (count, split) in enumerate(new):
            at, end = since[split], ends[split]
            if left is not None:
                share = max(1, left // (len(new) - place))
                end = self._cut(split, at.next, end, share)
                left = max(0, left - min(share, count))
            after[split] = Position(at.first, end)
        return after

    def read(self, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range, checked against the plan."""
        yield from batches_of(split, self._numbered(split, start, end))
        begin = begins_of(self.source).get(split, 0)
        if begin > start:
            raise _purged(split, start, begin)

    def committed(self, ends: Offsets) -> None:
        """The log keeps its rows by itself."""

    def _cut(self, split: str, start: int, end: int, rows: int) -> int:
        with called(self.source, "cut"):
            return max(start + 1, min(end, self.source.cut(split, start, end, rows)))

    def _numbered(self, split: str, start: int, end: int) -> Iterator[Numbered]:
        number, gaps = start, self.source.gaps
        with called(self.source, "read"):
            for row in self.source.read(split, start, end):
                numbered = cast("Numbered", row if gaps else (number, row))
                if not number <= numbered[0] < end:
                    break
                yield numbered
                number = numbered[0] + 1
            else:
                if gaps or number == end:
                    return
        raise _unplanned(self.source, split, (start, end), number)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader(NumberedReader):
    """The reader of a log."""

    source: LogSource = field(repr=False)

    def plan(self, folder: Path) -> Plan:  # noqa: ARG002  a log needs none
        """A plan of the source as it was given."""
        return LogPlan(fresh(self.source))

    def check(self, start: Start) -> Known:
        """Each split must be there, not end before what was read of it, and still have what was not read."""
        source = fresh(self.source)
        ends, begins = ends_of(source), begins_of(source)
        for log in start.logs:
            read = loaded(log.committed)
            check_there(read, ends, begins)
            if start.sealed and any(end > (read[split].next if split in read else 0) for split, end in ends.items()):
                raise sealed_error(self.name)
        return start.known

    def ends(self, patience: timedelta) -> Ends:
        """The splits and the number of their next row."""
        return within(patience, lambda: ends_of(fresh(self.source)), step=self.name)

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The rows that were not read, gaps included."""
        read, begins = loaded(offset), within(patience, lambda: begins_of(fresh(self.source)), step=self.name)
        ends = self.ends(patience)
        since = {split: read[split].next if split in read else begins.get(split, 0) for split in ends}
        return Lag(records=sum(max(0, end - since[split]) for split, end in ends.items()))


def ends_of(source: LogSource) -> dict[str, int]:
    """What `ends` returns, checked."""
    return _numbers(source, "ends")


def begins_of(source: LogSource) -> dict[str, int]:
    """What `begins` returns, checked."""
    return _numbers(source, "begins")


def _numbers(source: LogSource, method: str) -> dict[str, int]:
    with called(source, method):
        found = getattr(source, method)()
    right = isinstance(found, Mapping) and all(
        isinstance(split, str) and split and type(at) is int and at >= 0 for split, at in found.items()
    )
    if not right:
        raise SourceReadError(
            f"{type(source).__name__}.{method} must return a dict of whole numbers by the names of splits, not"
            f" {str(found)[:100]}",
            remedy="return for example {'0': 17, '1': 4}",
        )
    return dict(found)


def check_there(read: Offsets, ends: Mapping[str, int], begins: Mapping[str, int]) -> None:
    """DataLossError if a split is gone, ends before what was read of it, or lacks rows that were not read."""
    for split, at in read.items():
        end = ends.get(split)
        if end is None or end < at.next:
            found = "is not there any more" if end is None else f"ends at {end}"
            raise DataLossError(
                f"the split {split!r} was read up to {at.next} and {found}",
                remedy=f"put its rows back; or, if they were removed on purpose, {BEGIN_ANEW}",
                split=split,
            )
        if begins.get(split, 0) > at.next:
            raise _purged(split, at.next, begins[split])


def _purged(split: str, wanted: int, begin: int) -> DataLossError:
    return DataLossError(
        f"rows of the split {split!r} were removed before they were read: it begins at {begin}, and {wanted} is the"
        " next row to read",
        remedy=f"put them back; or {BEGIN_ANEW}, and let the log keep its rows for longer",
        split=split,
    )


def _unplanned(source: LogSource, split: str, planned: tuple[int, int], number: int) -> DataLossError:
    return DataLossError(
        f"{type(source).__name__}.read has not returned the rows that were planned: those of the split {split!r} from"
        f" {planned[0]} up to {planned[1]}, and row {number} is missing or out of order",
        remedy=f"put the rows back as they were; or {BEGIN_ANEW}",
        split=split,
    )
