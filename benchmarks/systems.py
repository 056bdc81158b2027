"""What a row of another system costs, by runs over some rows and over three times as many, beside its client alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import MICROSECONDS, Figure, Taken, slope_us, timed
from rs_assets import RunOptions
from rs_assets.common.home import Home
from rs_assets.stream.data_stream import DataStream

TIMES = 3
# Rows of the smaller run: a share of those of the benchmarks.
SHARE, LEAST = 20, 20_000
# Is called with the number of rows to read or write, and returns it.
Work = Callable[[int], int]


def rows_read(bench: Bench, stream: DataStream, home: Path | None = None) -> int:
    """The rows that a whole run of a stream into its sinks reads, in `home` or in a fresh one."""
    with bench.place() as folder:
        report = stream.build().run(RunOptions(home=Home(home or folder), driver=bench.driver))
        return sum(query.rows_read for query in report.queries)


def small_rows(bench: Bench) -> int:
    """The rows of the smaller run."""
    return max(LEAST, bench.rows // SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """Runs of ours beside a client that does the same alone; `least_per_s` are the rows a second that are asked."""

    benchmark: str
    what: str
    ours: Work
    client: str
    alone: Work
    least_per_s: float

    def figure(self, bench: Bench) -> Figure:
        """Microseconds of a row, by the slope between two sizes; of the client by the larger one."""
        few, many = small_rows(bench), TIMES * small_rows(bench)
        small, large = (_taken(self.ours, rows, bench.pairs) for rows in (few, many))
        row_us, work_us = (slope_us(large, small, many - few, of=of) for of in ("seconds", "cpu_s"))
        alone_us = (
            statistics.median(each.seconds for each in _taken(self.alone, many, bench.pairs)) * MICROSECONDS / many
        )
        whole = _median(small)
        note = (
            f"{MICROSECONDS / row_us:,.0f} rows/s, {work_us:.1f} µs of processor time; {self.client}"
            f" {MICROSECONDS / alone_us:,.0f} rows/s; all of {few:,} rows {whole:.1f} s"
        )
        return Figure(
            benchmark=self.benchmark,
            what=self.what,
            value=row_us,
            unit="µs a row",
            target=MICROSECONDS / self.least_per_s,
            note=note,
        )


def _taken(work: Work, rows: int, count: int) -> list[Taken]:
    """What `count` runs took, after one that warms up."""
    found = []
    for _ in range(count + 1):
        taken, done = timed(lambda: work(rows))
        if done != rows:
            raise AssertionError(f"{done:,} rows and not {rows:,}")
        found.append(taken)
    return found[1:]


def _median(taken: Sequence[Taken]) -> float:
    return statistics.median(each.seconds for each in taken)
