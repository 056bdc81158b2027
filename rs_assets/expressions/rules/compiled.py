"""A set of rules as arrays: what each conjunction asks for, and the index by which it is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rs_assets.expressions.rules.atoms import Interval, Matches, Member, Test, View
from rs_assets.expressions.rules.batch import Ints
from rs_assets.expressions.rules.normal import Conjunction
from rs_assets.expressions.rules.scan import Scan, database_of

# Intervals are found by the bucket that a number falls into.
BUCKETS = 256
# The ways to find a conjunction, best first.
ONE, PATTERN, SET, RANGE, ALWAYS = range(5)


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of numbers for each of several keys."""

    ends: Ints
    flat: Ints

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """These lists."""
        ends = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return cls(ends, np.fromiter((n for each in lists for n in each), np.int64, int(ends[-1])))

    def spread(self, keys: Ints) -> tuple[Ints, Ints]:
        """For each key each number of its list: the places of the keys, and the numbers.

        >>> places, numbers = Lists.of([[7], [], [8, 9]]).spread(np.array([2, 0]))
        >>> places.tolist(), numbers.tolist()
        ([0, 0, 1], [8, 9, 7])
        """
        counts = self.ends[keys + 1] - self.ends[keys]
        places = np.repeat(np.arange(len(keys)), counts)
        first = np.repeat(self.ends[keys] - (np.cumsum(counts) - counts), counts)
        return places, self.flat[first + np.arange(len(places))]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The intervals of a number: one a conjunction in `low` and `high`; `asked` says which ask for one.

    `found` lists the conjunctions that are found by it, for each bucket between two of the `bounds`.
    """

    field: str
    low: Any
    high: Any
    asked: Any
    bounds: Any
    found: Lists


@dataclass(frozen=True, slots=True)
class Members:
    """The sets of a text. `values` are all their members; `inside` and `outside` are pairs of conjunction and member.

    A pair is one number, and they are sorted. `asked` says which conjunctions must have a member and are not found by
    it, `barred` which must not have some; `found` lists those that are found by each member.
    """

    view: View
    values: pa.Array
    inside: Ints
    outside: Ints
    asked: Any
    barred: Any
    found: Lists

    @property
    def width(self) -> int:
        """What a conjunction counts in a pair."""
        return len(self.values) + 1


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of a text. `found` lists the conjunctions that are found by each.

    `asked` lists for each conjunction the patterns that it must have, as 2 n + 1, or must not have, as 2 n.
    """

    scan: Scan
    found: Lists
    asked: Lists


@dataclass(frozen=True, slots=True)
class Compiled:
    """A set of rules, ready for batches. `rule` is the number of the rule of each conjunction, of `rules`.

    `always` are the conjunctions without an index; `asked` lists for each conjunction its other tests, as `Patterns`
    does, by their number in `tests`.
    """

    rules: int
    rule: Ints
    ranges: tuple[Ranges, ...]
    members: tuple[Members, ...]
    patterns: tuple[Patterns, ...]
    always: Ints
    tests: tuple[Test, ...]
    asked: Lists

    @property
    def slow(self) -> int:
        """How many patterns Python looks for one by one."""
        return sum(len(each.scan.database.slow) for each in self.patterns)


def compiled(rules: Sequence[Sequence[Conjunction]], wholes: Iterable[str]) -> Compiled:
    """The set of these rules, each as its conjunctions; `wholes` are the fields of whole numbers."""
    conjunctions = [each for rule in rules for each in rule]
    of_rule = np.repeat(np.arange(len(rules), dtype=np.int64), [len(rule) for rule in rules] or 0)
    access = [_access(each) for each in conjunctions]
    kinds = dict.fromkeys(test for each in conjunctions for test, _ in each)
    whole = frozenset(wholes)
    numbers = dict.fromkeys(test.field for each in conjunctions for test, holds in each
                            if isinstance(test, Interval) and holds)  # fmt: skip
    views = dict.fromkeys(test.view for test in kinds if isinstance(test, Member))
    texts = dict.fromkeys(test.view for test in kinds if isinstance(test, Matches))
    rest = [[(test, holds) for test, holds in each if _is_other(test, holds=holds)] for each in conjunctions]
    tests = tuple(dict.fromkeys(test for each in rest for test, _ in each))
    at = {test: number for number, test in enumerate(tests)}
    return Compiled(
        rules=len(rules),
        rule=of_rule,
        ranges=tuple(_ranges(name, conjunctions, access, whole=name in whole) for name in numbers),
        members=tuple(_members(view, conjunctions, access) for view in views),
        patterns=tuple(_patterns(view, conjunctions, access) for view in texts),
        always=np.array([n for n, each in enumerate(access) if each is None], np.int64),
        tests=tests,
        asked=Lists.of([[2 * at[test] + holds for test, holds in each] for each in rest]),
    )


def _is_other(test: Test, *, holds: bool) -> bool:
    return not isinstance(test, Member | Matches) and not (isinstance(test, Interval) and holds)


def _access(conjunction: Conjunction) -> Test | None:
    """The test by which a conjunction is found, the one that fewest rows meet; None if it asks for nothing there is."""
    rated = [(*_rate(test), test) for test, holds in conjunction if holds]
    best = min(rated, key=lambda each: each[:2], default=(ALWAYS, 0.0, None))
    return best[2] if best[0] != ALWAYS else None


def _rate(test: Test) -> tuple[int, float]:
    match test:
        case Member(_, values):
            return (ONE if len(values) == 1 else SET), float(len(values))
        case Matches():
            return PATTERN, -float(len(test.pattern.scan))
        case Interval():
            return RANGE, float(test.high) - float(test.low)
    return ALWAYS, 0.0


def _ranges(name: str, conjunctions: Sequence[Conjunction], access: Sequence[Test | None], *, whole: bool) -> Ranges:
    kind = np.int64 if whole else np.float64
    ends = np.iinfo(np.int64) if whole else None
    low = np.full(len(conjunctions), ends.min if ends else -np.inf, kind)
    high = np.full(len(conjunctions), ends.max if ends else np.inf, kind)
    asked = np.zeros(len(conjunctions), np.bool_)
    for number, each in enumerate(conjunctions):
        for test, holds in each:
            if isinstance(test, Interval) and holds and test.field == name:
                low[number], high[number], asked[number] = test.low, test.high, True
    mine = [n for n, test in enumerate(access) if isinstance(test, Interval) and test.field == name]
    bounds = np.unique(np.concatenate([low[mine], high[mine]])) if mine else low[:0]
    if len(bounds) > BUCKETS:
        bounds = bounds[np.linspace(0, len(bounds) - 1, BUCKETS).astype(np.int64)]
    # The bucket n holds what is from bound n - 1 on and before bound n.
    buckets: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for n in mine:
        first, last = (int(np.searchsorted(bounds, end[n], side="right")) for end in (low, high))
        for bucket in buckets[first : last + 1]:
            bucket.append(n)
    return Ranges(name, low, high, asked, bounds, Lists.of(buckets))


def _members(view: View, conjunctions: Sequence[Conjunction], access: Sequence[Test | None]) -> Members:
    mine = [(n, test.values, holds) for n, each in enumerate(conjunctions) for test, holds in each
            if isinstance(test, Member) and test.view == view]  # fmt: skip
    values = sorted({value for _, members, _ in mine for value in members})
    code = {value: number for number, value in enumerate(values)}
    width = len(values) + 1
    asked, barred = np.zeros(len(conjunctions), np.bool_), np.zeros(len(conjunctions), np.bool_)
    asked[[n for n, _, holds in mine if holds]] = True
    barred[[n for n, _, holds in mine if not holds]] = True
    found: list[list[int]] = [[] for _ in values]
    for n, test in enumerate(access):
        if isinstance(test, Member) and test.view == view:
            # What is found by its member has one.
            asked[n] = False
            for value in test.values:
                found[code[value]].append(n)

    def pairs(wanted: bool) -> Ints:  # noqa: FBT001
        made = {n * width + code[value] for n, members, holds in mine if holds == wanted for value in members}
        return np.sort(np.fromiter(made, np.int64, len(made)))

    return Members(view, pa.array(values, pa.string()), pairs(True), pairs(False), asked, barred, Lists.of(found))  # noqa: FBT003


def _patterns(view: View, conjunctions: Sequence[Conjunction], access: Sequence[Test | None]) -> Patterns:
    mine: Sequence[Mapping[Any, bool]] = [
        {test.pattern: holds for test, holds in each if isinstance(test, Matches) and test.view == view}
        for each in conjunctions
    ]
    patterns = tuple(dict.fromkeys(pattern for each in mine for pattern in each))
    number = {pattern: n for n, pattern in enumerate(patterns)}
    found: list[list[int]] = [[] for _ in patterns]
    for n, test in enumerate(access):
        if isinstance(test, Matches) and test.view == view:
            found[number[test.pattern]].append(n)
    asked = Lists.of([[2 * number[pattern] + holds for pattern, holds in each.items()] for each in mine])
    return Patterns(Scan(view, patterns, database_of(patterns)), Lists.of(found), asked)
