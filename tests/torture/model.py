"""What the outputs must hold, from the input alone: plain Python that shares nothing with the product.

Each record has a number of its own; its time is that many seconds after midnight. So a window is a range of numbers,
and what is lost or doubled says by itself what it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

# The length of a window, and how long the watermark stays behind the newest record, in seconds (and so in records).
WINDOW_S, DELAY_S = 10, 15
PAGES = 3
FOR_EVER = 1 << 40
NO_RECORD = "{no record"
# The condition of code that refuses some records, which corrected code takes.
STRICT = "n % 5 <> 4"

Row = tuple[object, ...]
# What a query has read of: the numbers of records.
Numbers = frozenset[int]


def record(number: int) -> str:
    """The line of the record with a number."""
    seconds = f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
    return json.dumps({"page": page_of(number), "n": number, "ts": f"2024-01-01T{seconds}Z"})


def bad_line(number: int) -> str:
    """A line that is no record."""
    return f"{NO_RECORD} {number}"


@dataclass(slots=True)
class Input:
    """What was put into each source, by its letter: the numbers of its records and its bad lines."""

    numbers: dict[str, set[int]] = field(default_factory=dict)
    bad: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0

    def following(self, rows: int) -> list[str]:
        """The lines of so many new records, and of one that is none; `add` knows of them once they are in a source."""
        behind = self.count + rows
        return [*(record(number) for number in range(self.count, behind)), bad_line(behind)]

    def add(self, source: str, lines: Iterable[str]) -> None:
        """Know of lines that are in a source."""
        for line in lines:
            if line.startswith(NO_RECORD):
                self.bad.setdefault(source, []).append(line)
            else:
                self.numbers.setdefault(source, set()).add(json.loads(line)["n"])
        self.count = 1 + max((max(numbers) for numbers in self.numbers.values() if numbers), default=-1)

    def of(self, sources: Iterable[str]) -> Numbers:
        """The numbers of all records in some sources."""
        return frozenset().union(*(self.numbers.get(source, set()) for source in sources))

    def letters(self, sources: Iterable[str]) -> list[Row]:
        """The bad lines in some sources."""
        return sorted((line,) for source in sources for line in self.bad.get(source, []))


@dataclass(frozen=True, slots=True)
class Copy:
    """What the query of the copy knows: the records that it read, those that it refused, and those that it forgot."""

    seen: Numbers = frozenset()
    refused: Numbers = frozenset()
    gone: Numbers = frozenset()

    def read(self, numbers: Numbers, *, strict: bool = False) -> Copy:
        """With more records; `strict` code refuses some of them."""
        refused = frozenset(filter(too_strict, numbers - self.seen)) if strict else frozenset()
        return replace(self, seen=self.seen | numbers, refused=self.refused | refused)

    def redriven(self) -> Copy:
        """Nothing is refused any more."""
        return replace(self, refused=frozenset())

    def without(self, page: str) -> Copy:
        """The records of a page are forgotten."""
        gone = of_page(page, self.seen)
        return Copy(self.seen, self.refused - gone, self.gone | gone)

    @property
    def rows(self) -> list[Row]:
        """What the table holds."""
        return copied(self.seen - self.refused - self.gone)


@dataclass(frozen=True, slots=True)
class Windows:
    """What the query of windows knows: the records that it took, how far its watermark is, and what it forgot."""

    taken: Numbers = frozenset()
    watermark: int = 0
    gone: Numbers = frozenset()

    def read(self, numbers: Numbers) -> Windows:
        """Behind a batch with more records (those of before are not taken again), and the empty batch that follows.

        A record is late if its window was closed by the watermark that the batch began with.
        """
        fresh = frozenset(n for n in numbers - self.taken if end_of(n) > self.watermark)
        newest = max(fresh, default=0)
        return replace(self, taken=self.taken | fresh, watermark=max(self.watermark, newest - DELAY_S))

    def finished(self) -> Windows:
        """At the end of input."""
        return replace(self, watermark=FOR_EVER)

    def without(self, page: str) -> Windows:
        """The records of a page are forgotten."""
        return replace(self, gone=self.gone | of_page(page, self.taken))

    @property
    def closed(self) -> list[Row]:
        """The rows of the windows that were closed: page, start, count, sum."""
        counts: Counter[tuple[str, int]] = Counter()
        sums: Counter[tuple[str, int]] = Counter()
        for number in self.taken - self.gone:
            if end_of(number) <= self.watermark:
                key = page_of(number), end_of(number) - WINDOW_S
                counts[key] += 1
                sums[key] += number
        return sorted((*key, counts[key], sums[key]) for key in counts)


def end_of(number: int) -> int:
    """The end of a record's window, in seconds."""
    return number // WINDOW_S * WINDOW_S + WINDOW_S


def page_of(number: int) -> str:
    """The page of a record."""
    return f"p{number % PAGES}"


def of_page(page: str, numbers: Iterable[int]) -> Numbers:
    """The records of a page."""
    return frozenset(number for number in numbers if page_of(number) == page)


def too_strict(number: int) -> bool:
    """Whether the condition `STRICT` refuses a record."""
    return number % 5 == 4


def all_read(numbers: Numbers) -> dict[str, list[Row]]:
    """What both tables hold at the end of all input."""
    return {"copy": copied(numbers), "windows": Windows().read(numbers).finished().closed}


def copied(numbers: Iterable[int]) -> list[Row]:
    """The rows of the copy."""
    return sorted((number,) for number in numbers)


def difference(has: Mapping[str, list[Row]], wanted: Mapping[str, list[Row]]) -> str:
    """What is missing in each sink and what is too much, in a line; nothing if they are equal."""
    told = []
    for name, rows in wanted.items():
        have, want = Counter(has.get(name, [])), Counter(rows)
        missing, more = sorted((want - have).elements()), sorted((have - want).elements())
        if missing or more:
            told.append(f"{name} lacks {len(missing)} {missing[:4]} and has too much {len(more)} {more[:4]}")
    return "; ".join(told)
