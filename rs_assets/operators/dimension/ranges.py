"""The index of a version whose key contains values: a network an address, an interval a number or a time.

The ends of all intervals are the sorted `points` of a line, and cut it into cells: each point is one, and so is what
is before, between and after them. Each cell knows the interval that is found there, so a lookup is a binary search.
With fields that must be equal as well, each distinct key of these has a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from rs_assets.operators.dimension.hashing import comparable
from rs_assets.operators.dimension.index import (
    Index,
    Places,
    build_index,
    ends_of,
    mapped_rows,
    spread,
    values_at,
    with_keys,
    write_rows,
)
from rs_assets.operators.dimension.keys import Containing, Key, parted
from rs_assets.operators.dimension.spans import Bools, Spans, Values, spans_of, values_of
from rs_assets.records.columns import PREFIX

POINTS, BEGINS, CELLS, RUNS, LINES = "points.npy", "begins.npy", "cells.npy", "runs.npy", "lines"
LINE = f"{PREFIX}line"


def build(table: pa.Table, keys: Sequence[Key], folder: Path) -> int:
    """Write the index of `table` by `keys` into `folder`; returns its number of rows. Rows without a key are left out.

    Of the intervals of a cell the narrowest is found, of equally wide ones that which begins last. Rows with the same
    interval keep their order.
    """
    equal, containing = parted(keys)
    if containing is None:
        return build_index(table, equal, folder)
    table, spans = usable_spans(table, equal, containing)
    line_of, heads_of_lines = numbered(table, equal)
    if equal:
        _index_lines(table, equal, heads_of_lines, folder / LINES)
    line = Line.of(spans, line_of)
    first, last = line.cells_of(spans, line_of)
    order = np.lexsort((last, first))
    new = np.append(True, (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0))[: len(order)]
    heads = order[new]
    better = np.lexsort((last[heads], -first[heads], spans.width[heads]))
    ranked = zip(better.tolist(), first[heads][better].tolist(), last[heads][better].tolist(), strict=True)
    np.save(folder / CELLS, _filled(2 * len(line.points) + len(line.begins) - 1, ranked))
    np.save(folder / RUNS, np.append(np.flatnonzero(new), len(order)).astype(np.int64))
    np.save(folder / POINTS, line.points)
    np.save(folder / BEGINS, line.begins)
    write_rows(table, order, folder, {})
    return len(order)


def usable(table: pa.Table, keys: Sequence[Key]) -> pa.Table:
    """The rows of `table` with a complete key: no null, no empty text, a network that is one, an interval not empty."""
    equal, containing = parted(keys)
    if containing is None:
        return with_keys(table, equal).combine_chunks()
    return usable_spans(table, equal, containing)[0]


def usable_spans(table: pa.Table, equal: Sequence[str], containing: Containing) -> tuple[pa.Table, Spans]:
    """The usable rows of `table`, each with its span."""
    table = with_keys(table, equal) if equal else table
    spans = spans_of(table, containing)
    if spans.valid.all():
        return table.combine_chunks(), spans
    return table.filter(pa.array(spans.valid)).combine_chunks(), spans.only_valid()


@dataclass(frozen=True, slots=True)
class Line:
    """The sorted points of all lines, one after another; those of a line are from `begins` of it to the next one."""

    points: Values
    begins: Places

    @classmethod
    def of(cls, spans: Spans, line_of: Places) -> Self:
        """The ends of spans, each once a line."""
        points = np.concatenate([spans.low[spans.opens], spans.high[spans.ends]])
        lines = np.concatenate([line_of[spans.opens], line_of[spans.ends]])
        order = np.lexsort((points, lines))
        points, lines = points[order], lines[order]
        new = np.append(True, (points[1:] != points[:-1]) | (np.diff(lines) != 0))[: len(order)]
        count = int(line_of.max()) + 1 if len(line_of) else 1
        return cls(points[new], np.searchsorted(lines[new], np.arange(count + 1)).astype(np.int64))

    def cells(self, values: Values, line_of: Places) -> Places:
        """The cell of each value on its line."""
        places = self._places(values, line_of)
        on = places < self.begins[line_of + 1]
        on[on] = self.points[places[on]] == values[on]
        made: Places = 2 * places + line_of + on
        return made

    def cells_of(self, spans: Spans, line_of: Places) -> tuple[Places, Places]:
        """The first and the last cell of each span."""
        first = np.where(spans.opens, self.cells(spans.low, line_of), 2 * self.begins[line_of] + line_of)
        last = np.where(spans.ends, self.cells(spans.high, line_of) - (not spans.closed),
                        2 * self.begins[line_of + 1] + line_of)  # fmt: skip
        return first, last

    def _places(self, values: Values, line_of: Places) -> Places:
        """The first point of its line that is not before each value."""
        if len(self.begins) == 2:
            return np.searchsorted(self.points, values)
        begin, size = self.begins[line_of], self.begins[line_of + 1] - self.begins[line_of]
        while len(size) and size.max() > 0:
            half = size >> 1
            middle = np.minimum(begin + half, len(self.points) - 1)
            before = (size > 0) & (self.points[middle] < values)
            begin = np.where(before, begin + half + 1, begin)
            size = np.where(before, size - half - 1, half)
        return begin


@dataclass(frozen=True, slots=True)
class RangeIndex:
    """An open index; `find` returns the rows of some keys, `values` the fields of those rows."""

    rows: pa.RecordBatch
    containing: Containing
    line: Line
    cells: Places
    runs: Places
    lines: Index | None

    @classmethod
    def open(cls, folder: Path, keys: Sequence[Key]) -> Self:
        """Map the files in `folder`; OSError or ArrowInvalid if they cannot be read."""
        equal, containing = parted(keys)
        assert containing is not None  # see open_index
        points, begins, cells, runs = (np.load(folder / name, mmap_mode="r") for name in (POINTS, BEGINS, CELLS, RUNS))
        lines = Index.open(folder / LINES, equal) if equal else None
        return cls(mapped_rows(folder), containing, Line(points, begins), cells, runs, lines)

    def find(self, keys: Sequence[pa.Array]) -> tuple[Places, Places]:
        """As `Index.find`; the last key is the value that the dimension contains."""
        values, there = values_of(keys[-1], self.containing)
        asked, line_of = self._lines(keys[:-1], there)
        runs = self.cells[self.line.cells(values[asked], line_of)].astype(np.int64)
        asked, runs = asked[runs >= 0], runs[runs >= 0]
        who, rows = spread(asked, self.runs[runs], self.runs[runs + 1] - self.runs[runs])
        return ends_of(who, len(values)), rows

    def values(self, name: str, rows: Places) -> pa.Array:
        """The field `name` of some rows."""
        return values_at(self.rows, name, rows)

    def _lines(self, equal: Sequence[pa.Array], there: Bools) -> tuple[Places, Places]:
        """Who has a value and a line, and which line."""
        if self.lines is None:
            asked = np.flatnonzero(there)
            return asked, np.zeros(len(asked), np.int64)
        ends, rows = self.lines.find(equal)
        met = np.diff(ends) > 0
        found = self.lines.values(LINE, rows).to_numpy(zero_copy_only=False)
        return np.flatnonzero(met & there), found[there[met]]


def open_index(folder: Path, keys: Sequence[Key]) -> Index | RangeIndex:
    """The index by `keys` in `folder`; OSError or ArrowInvalid if it cannot be read."""
    equal, containing = parted(keys)
    return Index.open(folder, equal) if containing is None else RangeIndex.open(folder, keys)


def numbered(table: pa.Table, equal: Sequence[str]) -> tuple[Places, Places]:
    """The line of each row, a number for each distinct key of equal fields; and a row of each line."""
    made = np.zeros(table.num_rows, np.int64)
    for name in equal:
        codes = comparable(table[name].combine_chunks()).dictionary_encode()
        numbers = codes.indices.to_numpy().astype(np.int64)
        made = np.unique(made * max(len(codes.dictionary), 1) + numbers, return_inverse=True)[1].astype(np.int64)
    return made, np.unique(made, return_index=True)[1].astype(np.int64)


def _index_lines(table: pa.Table, equal: Sequence[str], heads: Places, folder: Path) -> None:
    folder.mkdir()
    keys = table.select(list(equal)).take(pa.array(heads))
    build_index(keys.append_column(LINE, pa.array(np.arange(len(heads)))), equal, folder)


def _filled(count: int, ranked: Iterable[tuple[int, int, int]]) -> Any:
    """For each cell the first of the spans, each a number and its cells, that has it; -1 for none.

    >>> _filled(6, [(7, 2, 3), (9, 1, 4)]).tolist()
    [-1, 9, 7, 7, 9, -1]
    """
    cells, free = [-1] * count, list(range(count + 1))
    for number, cell, last in ranked:
        while (cell := _next_free(free, cell)) <= last:
            cells[cell], free[cell] = number, cell + 1
    return np.array(cells, np.int32)


def _next_free(free: list[int], cell: int) -> int:
    """The first free cell from `cell` on; paths get shorter as they are walked."""
    while free[cell] != cell:
        free[cell] = free[free[cell]]
        cell = free[cell]
    return cell
