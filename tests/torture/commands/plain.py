"""What the tables of `pages` must hold, in plain Python. Times are whole minutes; an hour is a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

WINDOW, DELAY, HOUR = 10, 5, 60
NEVER, ALWAYS = -(10**9), 10**9

Row = tuple[object, ...]
Tables = dict[str, list[Row]]


class Code(NamedTuple):
    """The user's code: whether the copy refuses every fifth record, and what totals are multiplied with."""

    strict: bool = False
    factor: int = 1


class Record(NamedTuple):
    """A line of a file that can be read."""

    number: int
    page: str
    minute: int

    @property
    def window(self) -> int:
        """The start of its window."""
        return self.minute // WINDOW * WINDOW

    @property
    def hour(self) -> int:
        """The start of its partition."""
        return self.minute // HOUR * HOUR

    @property
    def refused(self) -> bool:
        """Whether strict code refuses it."""
        return self.number % 5 == 4


class File(NamedTuple):
    """A file of the input: its records, and a line that is no record."""

    records: tuple[Record, ...]
    bad: str


@dataclass(frozen=True, slots=True)
class Plain:
    """What a query without state has read, and whose rows are not there: they were refused, or forgotten."""

    files: int = 0
    refused: frozenset[int] = frozenset()
    forgotten: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Windows:
    """What the query of windows has read: `factors` are those of closed windows, by their start.

    `late` has the number of files whose late records a backfill took, by the hour; `cuts` the first file of the batch
    that had a file, where that is another one; `lines` are bad lines that were forgotten.
    """

    files: int = 0
    factors: Mapping[int, int] = field(default_factory=dict)
    late: Mapping[int, int] = field(default_factory=dict)
    cuts: Mapping[int, int] = field(default_factory=dict)
    forgotten: frozenset[int] = frozenset()
    lines: frozenset[str] = frozenset()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What all queries have read, at one moment."""

    copy: Plain = Plain()
    latest: Plain = Plain()
    windows: Windows = Windows()


@dataclass(slots=True)
class Pages:
    """The input, what is known of the queries now, and what follows for the tables."""

    files: list[File] = field(default_factory=list)
    now: Known = Known()

    # What is done.

    def read(self, code: Code) -> None:
        """All queries read all files, by this code."""
        copy, windows, count = self.now.copy, self.now.windows, len(self.files)
        more = {record.number for record in self._of(copy.files, count) if code.strict and record.refused}
        before, after = self._mark(windows), self._watermark(count)
        closed = {end - WINDOW: code.factor for end in range(0, max(after, 0) + 1, WINDOW) if end > before}
        self.now = Known(
            replace(copy, files=count, refused=copy.refused | more),
            replace(self.now.latest, files=count),
            replace(windows, files=count, factors={**windows.factors, **closed}),
        )

    def finish(self, code: Code) -> None:
        """The input has ended: all windows close."""
        windows = self.now.windows
        starts = {record.window for record in self._of(0, windows.files)}
        factors = {**dict.fromkeys(starts, code.factor), **windows.factors}
        self.now = replace(self.now, windows=replace(windows, factors=factors, finished=True))

    def backfill(self, hours: Iterable[int], code: Code, *, late: bool) -> None:
        """Closed hours are computed again, with the late records that have come, or without."""
        windows, hours = self.now.windows, list(hours)
        factors = {start: code.factor for hour in hours for start in range(hour, hour + HOUR, WINDOW)}
        taken = dict.fromkeys(hours, windows.files if late else 0)
        changed = replace(windows, factors={**windows.factors, **factors}, late={**windows.late, **taken})
        self.now = replace(self.now, windows=changed)

    def forget(self, page: str) -> None:
        """All rows of a page go, with its dead letters."""
        copy, latest, windows = self.now.copy, self.now.latest, self.now.windows
        gone = [
            query.forgotten | {record.number for record in self._of(0, query.files) if record.page == page}
            for query in (copy, latest, windows)
        ]
        lines = windows.lines | {bad for _, bad in self.files[: windows.files] if page in bad.split()}
        self.now = Known(
            replace(copy, forgotten=gone[0], refused=copy.refused - gone[0]),
            replace(latest, forgotten=gone[1]),
            replace(windows, forgotten=gone[2], lines=lines),
        )

    def redrive(self) -> None:
        """All records that strict code refused are rows."""
        self.now = replace(self.now, copy=replace(self.now.copy, refused=frozenset()))

    def cut(self, cuts: Mapping[int, int]) -> None:
        """Batches have read these files from those on."""
        windows = self.now.windows
        self.now = replace(self.now, windows=replace(windows, cuts={**windows.cuts, **cuts}))

    def back(self, **parts: Plain | Windows) -> None:
        """Some queries are as they were."""
        self.now = replace(self.now, **parts)

    # What there is.

    @property
    def watermark(self) -> int:
        """After all files that the windows have read."""
        return self._watermark(self.now.windows.files)

    def closed(self) -> list[int]:
        """The starts of closed hours."""
        hours = [record.hour for record in self._of(0, self.now.windows.files)]
        until = self._mark(self.now.windows)
        return [hour for hour in range(min(hours, default=0), max(hours, default=-1) + 1, HOUR) if hour + HOUR <= until]

    def in_hour(self, hour: int) -> tuple[int, int]:
        """How many records of an hour are in windows, and how many were late."""
        of_hour = [record.hour == hour for record in self._of(0, self.now.windows.files)]
        counted = sum(record.hour == hour for record in self._counted())
        return counted, sum(of_hour) - counted

    def factors_of(self, hour: int) -> set[int]:
        """The factors that the rows of an hour have; rows whose total is zero have any."""
        return {
            self.now.windows.factors[start] for _, start, _, total in self._totals() if _hour(start) == hour and total
        }

    def others(self, code: Code, hours: Iterable[int]) -> int:
        """How many rows of these hours this code would change."""
        factors, among = self.now.windows.factors, set(hours)
        return sum(
            _hour(start) in among and total > 0 and factors[start] != code.factor
            for _, start, _, total in self._totals()
        )

    def since(self, then: Known, code: Code) -> Pages:
        """As if this code had read on from there what the windows have read since."""
        windows = self.now.windows
        known = replace(then, windows=replace(then.windows, cuts={**then.windows.cuts, **windows.cuts}))
        pages = Pages(self.files[: windows.files], known)
        pages.read(code)
        return pages

    def windows_of(self, hours: Iterable[int]) -> dict[tuple[str, int], tuple[int, int]]:
        """The closed windows of these hours: number of records and total, by page and start."""
        among = set(hours)
        return {(page, start): (rows, total) for page, start, rows, total in self._totals() if _hour(start) in among}

    def made_of(self, page: str, start: int) -> set[int]:
        """The numbers of the records that a window of a page has taken as they came, also of forgotten ones."""
        return {each.number for each in self._in_time() if (each.page, each.window) == (page, start)}

    def tables(self) -> Tables:
        """The rows of each table, and the dead letters that count, in order."""
        copy, latest, windows = self.now.copy, self.now.latest, self.now.windows
        newest: dict[str, Record] = {}
        for record in self._of(0, latest.files):
            if record.number not in latest.forgotten:
                newest[record.page] = max(record, newest.get(record.page, record))
        copied = [each for each in self._of(0, copy.files) if each.number not in copy.refused | copy.forgotten]
        late = set(self._of(0, windows.files)).difference(self._in_time())
        letters = [bad for _, bad in self.files[: windows.files] if bad not in windows.lines]
        letters += [f"usual {number}" for number in copy.refused]
        letters += [f"window {each.number}" for each in late if each.number not in windows.forgotten]
        return {
            "copy": sorted(copied),
            "latest": sorted(newest.values()),
            "totals": sorted(self._totals()),
            "letters": sorted((letter,) for letter in letters),
        }

    def _of(self, first: int, until: int) -> Iterator[Record]:
        return (record for records, _ in self.files[first:until] for record in records)

    def _watermark(self, files: int) -> int:
        """After so many files."""
        return max((record.minute for record in self._of(0, files)), default=NEVER) - DELAY

    def _mark(self, windows: Windows) -> int:
        return ALWAYS if windows.finished else self._watermark(windows.files)

    def _in_time(self) -> Iterator[Record]:
        """The records that the windows took as they came: their window was open before their batch."""
        windows = self.now.windows
        for number, (records, _) in enumerate(self.files[: windows.files]):
            mark = self._watermark(windows.cuts.get(number, number))
            yield from (record for record in records if record.window + WINDOW > mark)

    def _counted(self) -> set[Record]:
        """The records in windows: those in time, and late ones that a backfill took."""
        late = self.now.windows.late
        taken = {record for hour, files in late.items() for record in self._of(0, files) if record.hour == hour}
        return taken.union(self._in_time())

    def _totals(self) -> list[tuple[str, int, int, int]]:
        """Page, start, number of records and total of each closed window."""
        windows, sums = self.now.windows, {}
        for record in self._counted():
            number, start = record.number, record.window
            if start + WINDOW <= self._mark(windows) and number not in windows.forgotten:
                rows, total = sums.get((record.page, start), (0, 0))
                sums[record.page, start] = rows + 1, total + number * windows.factors[start]
        return [(page, start, rows, total) for (page, start), (rows, total) in sums.items()]


def _hour(minute: int) -> int:
    return minute // HOUR * HOUR
