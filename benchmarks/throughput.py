"""Our pipelines against the same queries by hand, over generated files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from benchmarks import by_hand, pipelines_under_test
from benchmarks.bench import Bench, Query
from benchmarks.measure import Comparison, Figure, Part, compare, slope_us, slopes_us
from rs_assets import Pipeline

# What a pipeline may take beside the same query by hand.
MOST_BY_HAND, MOST_CHAINED = 1.05, 1.1
# What a function may take beside SQL: one that is traced, one of which half is, one that is left to Python.
MOST_TRACED, MOST_HALF, MOST_PYTHON = 1.05, 1.15, 2.5
TENFOLD = 10
# What a map of three fields may take beside SQL, in processor time of a row: half of the 4.54 µs of the first version,
# which gave the function a lazy row and copied each result field by field.
MOST_MAPPED_US = 2.27


def filter_figures(bench: Bench) -> Iterator[Figure]:
    """A filter that keeps one row in a hundred."""
    yield from _against_hand(bench, "filter, 1 % kept", pipelines_under_test.filter_pipeline, by_hand.filter_query)
    for what, condition, trace, target in (
        ("a traced lambda against SQL", pipelines_under_test.LAMBDA, True, MOST_TRACED),
        ("a traced lambda that calls a method against SQL", pipelines_under_test.METHOD, True, MOST_TRACED),
        ("a lambda half of which is opaque against SQL", pipelines_under_test.HALF, True, MOST_HALF),
        (
            "a lambda left to Python, which reads one field, against SQL",
            pipelines_under_test.LAMBDA,
            False,
            MOST_PYTHON,
        ),
    ):
        bench.say(f"filter: {what}")
        result = compare(
            lambda c=condition, t=trace: bench.ours(  # type: ignore[misc]
                pipelines_under_test.filter_pipeline(bench.source, c, trace=t)
            ),
            lambda: bench.ours(pipelines_under_test.filter_pipeline(bench.source)),
            pairs=bench.pairs,
            warm_up=bench.warm_up,
        )
        yield _figure("filter, 1 % kept", what, result, target)


def map_figures(bench: Bench) -> Iterator[Figure]:
    """A map of three fields in Python: what its rows take beyond those of the same map in SQL."""

    def against_sql(how: Literal["records", "batches"]) -> Comparison:
        bench.say(f"map: a function of {how} against SQL")
        return compare(
            lambda: bench.ours(pipelines_under_test.map_pipeline(bench.source, how)),
            lambda: bench.ours(pipelines_under_test.map_pipeline(bench.source, "sql")),
            pairs=bench.pairs,
            warm_up=bench.warm_up,
        )

    name = "map of three fields"
    yield _figure(name, "by Arrow batches, against SQL", against_sql("batches"), None)
    result = against_sql("records")
    yield _figure(name, "left to Python, against SQL", result, None)
    yield Figure(
        benchmark=name, what="processor time of a row beyond that of SQL",
        value=slope_us(result.ours, result.other, bench.rows), unit="µs", target=MOST_MAPPED_US, note="medians",
    )  # fmt: skip


def one_file_figures(bench: Bench) -> Iterator[Figure]:
    """All rows in one file, read in one batch; windows are flushed behind it."""
    source = bench.views(bench.rows, files=1)
    for name, make, query, most in (
        ("filter, 1 % kept", pipelines_under_test.filter_pipeline, by_hand.filter_query, MOST_BY_HAND),
        ("10 s windows", pipelines_under_test.window_pipeline, by_hand.window_query, MOST_CHAINED),
    ):
        bench.say(f"one file, {name}: against PySpark by hand, writing Parquet")
        result = bench.against_hand(make, query, source, sink="parquet")
        yield _figure("one file", f"{name}, against PySpark by hand writing Parquet", result, most)


def window_figures(bench: Bench) -> Iterator[Figure]:
    """Windows of 10 s by user: about a group for ten rows."""
    yield from _against_hand(bench, "10 s windows", pipelines_under_test.window_pipeline, by_hand.window_query)


def chain_figures(bench: Bench) -> Iterator[Figure]:
    """Windows of a minute over windows of 10 s by user, in one query."""
    yield from _against_hand(
        bench,
        "windows over 10 s windows",
        pipelines_under_test.chained_pipeline,
        by_hand.chained_query,
        most=MOST_CHAINED,
    )


def slope_figures(bench: Bench) -> Iterator[Figure]:
    """What a row costs, by runs over all rows and over ten times as many; what a run costs whatever it reads."""
    yield from _slopes(bench, "filter, 1 % kept", pipelines_under_test.filter_pipeline, by_hand.filter_query)
    yield from _slopes(bench, "10 s windows", pipelines_under_test.window_pipeline, by_hand.window_query)


def _slopes(bench: Bench, name: str, make: Callable[[Path], Pipeline], query: Query) -> Iterator[Figure]:
    warm, taken = replace(bench, warm_up=min(bench.warm_up, 1)), list[Comparison]()
    for rows in (bench.rows, TENFOLD * bench.rows):
        bench.say(f"{name}: {rows:,} rows against PySpark by hand, writing Parquet")
        result = warm.against_hand(make, query, bench.views(rows), sink="parquet")
        yield _figure(name, f"{rows:,} rows, against PySpark by hand writing Parquet", result, None)
        taken.append(result)
    few, many = taken
    more = (TENFOLD - 1) * bench.rows
    parts: tuple[tuple[str, Part], ...] = (("processor time", "cpu_s"), ("time on the clock", "seconds"))
    for what, of in parts:
        ours, other = slopes_us(many, few, more, of=of)
        yield Figure(
            benchmark=name, what=f"{what} of a row, against PySpark by hand writing Parquet",
            # Of few rows the noise may be larger than what they cost.
            value=ours / other if other > 0 else many.ratio, unit="x", target=MOST_BY_HAND,
            note=f"{ours:.3f} against {other:.3f} µs",
        )  # fmt: skip


def _against_hand(
    bench: Bench, name: str, make: Callable[[Path], Pipeline], query: Query, *, most: float = MOST_BY_HAND
) -> Iterator[Figure]:
    sinks: tuple[by_hand.Sink, ...] = ("parquet", "delta")
    for sink in sinks:
        bench.say(f"{name}: against PySpark by hand, writing {sink}")
        result = bench.against_hand(make, query, bench.source, sink=sink)
        what = "Parquet" if sink == "parquet" else "Delta (JVM connector)"
        yield _figure(name, f"Delta, against PySpark by hand writing {what}", result, most)


def _figure(name: str, what: str, result: Comparison, target: float | None) -> Figure:
    return Figure(benchmark=name, what=what, value=result.ratio, unit="x", target=target, note=result.note)
