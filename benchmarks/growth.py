"""What a row and a file cost as there are more and more of them, against PySpark by hand; as plots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks import by_hand, pipelines_under_test
from benchmarks.bench import Bench
from benchmarks.measure import MICROSECONDS, Comparison, Figure

# Times the rows of other benchmarks; and numbers of files, each with ROWS_OF_A_FILE.
TIMES, NUMBERS, ROWS_OF_A_FILE = (1, 10, 50), (1_000, 10_000, 100_000), 10
BY_HAND = "PySpark by hand"
MILLISECONDS = 1000


def row_figures(bench: Bench) -> Iterator[Figure]:
    """One run of each way and number of rows, in turns; few before many, as a warm-up."""
    for name, make, query in (
        ("filter, 1 % kept", pipelines_under_test.filter_pipeline, by_hand.filter_query),
        ("10 s windows", pipelines_under_test.window_pipeline, by_hand.window_query),
    ):
        for times in TIMES:
            rows = times * bench.rows
            bench.say(f"{name}: {rows:,} rows")
            result = _once(bench, first=times == 1).against_hand(make, query, bench.views(rows), sink="parquet")
            yield from _figures(f"{name}, by rows", result, rows, of="row", unit="µs", units=MICROSECONDS)


def file_figures(bench: Bench) -> Iterator[Figure]:
    """The filter over small files, the same way."""
    make, query = pipelines_under_test.filter_pipeline, by_hand.filter_query
    for number in NUMBERS:
        bench.say(f"{number:,} files")
        source = bench.views(ROWS_OF_A_FILE * number, files=number)
        result = _once(bench, first=number == min(NUMBERS)).against_hand(make, query, source, sink="parquet")
        name = f"filter, by files of {ROWS_OF_A_FILE} rows"
        yield from _figures(name, result, number, of="file", unit="ms", units=MILLISECONDS)


def _once(bench: Bench, *, first: bool) -> Bench:
    """For one pair of runs, of the first size after a warm-up."""
    return replace(bench, pairs=1, warm_up=min(bench.warm_up, 1) if first else 0)


def _figures(name: str, result: Comparison, number: int, *, of: str, unit: str, units: float) -> Iterator[Figure]:
    """The time of a row or file in each way; a second has so many `units`."""
    (ours,), (other,) = result.ours, result.other
    for line, taken in (("ours", ours), (BY_HAND, other)):
        yield Figure(
            benchmark=name, what=f"{line}, {number:,} {of}s, a {of}", value=taken.seconds / number * units, unit=unit,
            note=f"{taken.seconds:.1f} s; processor time {taken.cpu_s:.1f} s", line=line, at=number,
        )  # fmt: skip
