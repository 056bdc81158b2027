"""Timing: two ways of one thing in turns, compared pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import psutil

MICROSECONDS = 1e6
# A run returns the number of rows it wrote, so that the two ways can be checked against each other.
Run = Callable[[], int]
Part = Literal["cpu_s", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the result. `target` is the most that is accepted; None where nothing was promised.

    With `cells`, names and texts, it is a line of a table of its benchmark's own, which has the names as its columns.
    With `line` it is the point `at` of that line in the plot of its benchmark.
    """

    benchmark: str
    what: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    line: str = ""
    at: int = 0

    @property
    def met(self) -> bool | None:
        """Whether the target is met, None without one."""
        return None if self.target is None else self.value <= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one run took: seconds on the clock, and processor seconds of this process and all below it.

    A process that has ended counts if its parent has waited for it: servers and Java do so, and the process of PySpark
    that forks its workers does not.
    """

    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs of two ways, in turns."""

    ours: tuple[Taken, ...]
    other: tuple[Taken, ...]

    @property
    def ratio(self) -> float:
        """The median of the pairwise ratios of time: what disturbs the machine for longer disturbs both of a pair."""
        return statistics.median(a.seconds / b.seconds for a, b in zip(self.ours, self.other, strict=True))

    @property
    def cpu_ratio(self) -> float:
        """The same of processor time."""
        return statistics.median(a.cpu_s / b.cpu_s for a, b in zip(self.ours, self.other, strict=True))

    @property
    def note(self) -> str:
        """Both medians in seconds, and the ratio of processor time."""
        ours, other = (statistics.median(t.seconds for t in runs) for runs in (self.ours, self.other))
        return f"{ours:.2f} s against {other:.2f} s; processor time {self.cpu_ratio:.2f}"


class DifferentResultsError(AssertionError):
    """The two ways did not write equally many rows: their times cannot be compared."""


def compare(ours: Run, other: Run, *, pairs: int, warm_up: int = 2) -> Comparison:
    """Run both in turns, `pairs` times after `warm_up` rounds; who goes first changes with each pair."""
    for _ in range(warm_up):
        _same(ours(), other())
    kept: tuple[list[Taken], list[Taken]] = ([], [])
    for number in range(pairs):
        order = (0, 1) if number % 2 else (1, 0)
        rows = {}
        for which in order:
            taken, rows[which] = timed((ours, other)[which])
            kept[which].append(taken)
        _same(rows[0], rows[1])
    return Comparison(ours=tuple(kept[0]), other=tuple(kept[1]))


def timed(run: Run) -> tuple[Taken, int]:
    """What `run` took, and its rows."""
    began, cpu = time.perf_counter(), cpu_seconds()
    rows = run()
    return Taken(seconds=time.perf_counter() - began, cpu_s=cpu_seconds() - cpu), rows


def cpu_seconds() -> float:
    """Processor time of this process and all below it, in seconds, with those that have ended (see `Taken`)."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def slope_us(all_of_them: Sequence[Taken], some: Sequence[Taken], more: int, *, of: Part = "cpu_s") -> float:
    """Microseconds for each of the `more` rows that the first runs had beyond the others; by default processor time."""
    large, small = (statistics.median(float(getattr(taken, of)) for taken in runs) for runs in (all_of_them, some))
    return (large - small) / more * MICROSECONDS


def slopes_us(many: Comparison, few: Comparison, more: int, *, of: Part = "cpu_s") -> tuple[float, float]:
    """The same of both ways: ours, and the other one."""
    return slope_us(many.ours, few.ours, more, of=of), slope_us(many.other, few.other, more, of=of)


def _same(ours: int, other: int) -> None:
    if ours != other:
        raise DifferentResultsError(f"our run wrote {ours} rows, the other one {other}")
