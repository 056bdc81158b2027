"""Evaluates a compiled set of rules over a batch: candidates by index, then all of their tests in bulk."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from rs_assets.expressions.rules.batch import Batch, Bools, Ints
from rs_assets.expressions.rules.checks import truths_of
from rs_assets.expressions.rules.compiled import Compiled, Members, Patterns, Ranges
from rs_assets.expressions.rules.scan import Scan


def matches(rules: Compiled, batch: Batch) -> tuple[Ints, Ints]:
    """The pairs of row and rule that hold, sorted."""
    hits = [_Hits.of(each, batch) for each in rules.patterns]
    codes = [_codes(each, batch) for each in rules.members]
    rows, conjunctions = _candidates(rules, batch, codes, hits)
    for ranges in rules.ranges:
        rows, conjunctions = _kept(rows, conjunctions, _in_ranges(ranges, batch, rows, conjunctions))
    for members, coded in zip(rules.members, codes, strict=True):
        rows, conjunctions = _kept(rows, conjunctions, _in_members(members, coded, rows, conjunctions))
    rows, conjunctions = _kept(rows, conjunctions, _tested(rules, batch, rows, conjunctions))
    for each, found in zip(rules.patterns, hits, strict=True):
        rows, conjunctions = _kept(rows, conjunctions, found.fit(each, rows, conjunctions))
    made = np.unique(rows * np.int64(max(rules.rules, 1)) + rules.rule[conjunctions])
    return np.divmod(made, max(rules.rules, 1))


def _kept(rows: Ints, conjunctions: Ints, fits: Bools) -> tuple[Ints, Ints]:
    return rows[fits], conjunctions[fits]


def _candidates(rules: Compiled, batch: Batch, codes: list[Ints], hits: list[_Hits]) -> tuple[Ints, Ints]:
    """The pairs of row and conjunction that an index finds; each conjunction has one."""
    made = []
    for members, coded in zip(rules.members, codes, strict=True):
        there = np.flatnonzero(coded >= 0)
        places, found = members.found.spread(coded[there])
        made.append((there[places], found))
    for patterns, hit in zip(rules.patterns, hits, strict=True):
        made.append(hit.candidates(patterns))
    for ranges in rules.ranges:
        if len(ranges.found.flat):
            values, valid = batch.number(ranges.field)
            there = np.flatnonzero(valid)
            places, found = ranges.found.spread(np.searchsorted(ranges.bounds, values[there], side="right"))
            made.append((there[places], found))
    every = np.arange(batch.rows)
    made.append((np.repeat(every, len(rules.always)), np.tile(rules.always, batch.rows)))
    return np.concatenate([rows for rows, _ in made]), np.concatenate([found for _, found in made])


def _codes(members: Members, batch: Batch) -> Ints:
    """The number of each row's text among the members, -1 for others."""
    codes, distinct = batch.coded(members.view)
    known = pc.fill_null(pc.index_in(distinct, value_set=members.values), -1).to_numpy(zero_copy_only=False)
    # The last one is for null.
    made: Ints = np.append(known, -1).astype(np.int64)[codes]
    return made


def _in_ranges(ranges: Ranges, batch: Batch, rows: Ints, conjunctions: Ints) -> Bools:
    values, there = batch.number(ranges.field)
    each = values[rows]
    inside = there[rows] & (each >= ranges.low[conjunctions]) & (each <= ranges.high[conjunctions])
    made: Bools = inside | ~ranges.asked[conjunctions]
    return made


def _in_members(members: Members, codes: Ints, rows: Ints, conjunctions: Ints) -> Bools:
    fits = np.ones(len(rows), np.bool_)
    for asks, pairs, wanted in ((members.asked, members.inside, True), (members.barred, members.outside, False)):
        some = np.flatnonzero(asks[conjunctions])
        code = codes[rows[some]]
        mine = np.where(code < 0, -1, conjunctions[some] * np.int64(members.width) + code)
        fits[some[_has(pairs, mine) != wanted]] = False
    return fits


def _has(ordered: Ints, wanted: Ints) -> Bools:
    """Which numbers are among sorted ones."""
    if not len(ordered):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    made: Bools = ordered[places] == wanted
    return made


def _tested(rules: Compiled, batch: Batch, rows: Ints, conjunctions: Ints) -> Bools:
    """The tests without an index, each computed once for the batch."""
    fits = np.ones(len(rows), np.bool_)
    if not len(rules.asked.flat):
        return fits
    places, asked = rules.asked.spread(conjunctions)
    for number in np.unique(asked >> 1).tolist():
        mine = asked >> 1 == number
        truths = truths_of(rules.tests[number], batch)[rows[places[mine]]]
        fits[places[mine][truths != (asked[mine] & 1).astype(np.bool_)]] = False
    return fits


class _Hits:
    """What the scan of a field has found: pairs of a distinct text and a pattern, as one number each, sorted."""

    def __init__(self, scan: Scan, codes: Ints, texts: list[str], found: tuple[Ints, Ints]) -> None:
        self.scan, self.codes, self.texts = scan, codes, texts
        self.width = np.int64(len(scan.patterns))
        self.pairs = np.sort(found[0] * self.width + found[1])
        self.ends = np.searchsorted(self.pairs, np.arange(len(texts) + 1) * self.width)

    @classmethod
    def of(cls, patterns: Patterns, batch: Batch) -> _Hits:
        codes, distinct = batch.coded(patterns.scan.view)
        return cls(patterns.scan, codes, distinct.to_pylist(), patterns.scan.hits(distinct))

    def candidates(self, patterns: Patterns) -> tuple[Ints, Ints]:
        """The pairs of row and conjunction that are found by a pattern."""
        there = np.flatnonzero(self.codes >= 0)
        counts = self.ends[self.codes[there] + 1] - self.ends[self.codes[there]]
        rows = np.repeat(there, counts)
        first = np.repeat(self.ends[self.codes[there]] - (np.cumsum(counts) - counts), counts)
        found = self.pairs[first + np.arange(len(rows))] % self.width
        places, conjunctions = patterns.found.spread(found)
        return rows[places], conjunctions

    def fit(self, patterns: Patterns, rows: Ints, conjunctions: Ints) -> Bools:
        """Whether the patterns of each pair are found, or not, as asked; what may match is verified."""
        fits = np.ones(len(rows), np.bool_)
        if not len(rows):
            return fits
        places, asked = patterns.asked.spread(conjunctions)
        codes = self.codes[rows[places]]
        pairs = np.where(codes < 0, -1, codes * self.width + (asked >> 1))
        distinct, back = np.unique(pairs, return_inverse=True)
        may = _has(self.pairs, distinct)
        for place in np.flatnonzero(may).tolist():
            text, number = divmod(int(distinct[place]), int(self.width))
            may[place] = self.scan.holds(number, self.texts[text])
        fits[places[may[back] != (asked & 1).astype(np.bool_)]] = False
        return fits
