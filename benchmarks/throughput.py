"""Our pipelines against the same queries by hand, over generated files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import by_hand, pipelines_under_test
from benchmarks.bench import Bench, Query
from benchmarks.measure import Comparison, Figure, compare
from rs_assets import Pipeline

# What a pipeline may take beside the same query by hand, and a Python function beside SQL.
MOST_BY_HAND, MOST_PYTHON = 1.05, 1.5


def filter_figures(bench: Bench) -> Iterator[Figure]:
    """A filter that keeps one row in a hundred."""
    yield from _against_hand(
        bench, "filter, 1 % kept", lambda: pipelines_under_test.filter_pipeline(bench.source), by_hand.filter_query
    )
    for what, condition, target in (
        ("a lambda against SQL", pipelines_under_test.LAMBDA, MOST_PYTHON),
        ("a lambda that calls a method against SQL", pipelines_under_test.OPAQUE, None),
    ):
        bench.say(f"filter: {what}")
        result = compare(
            lambda c=condition: bench.ours(pipelines_under_test.filter_pipeline(bench.source, c)),  # type: ignore[misc]
            lambda: bench.ours(pipelines_under_test.filter_pipeline(bench.source)),
            pairs=bench.pairs,
            warm_up=bench.warm_up,
        )
        yield _figure("filter, 1 % kept", what, result, target)


def window_figures(bench: Bench) -> Iterator[Figure]:
    """Windows of 10 s by user: about a group for ten rows."""
    yield from _against_hand(
        bench, "10 s windows", lambda: pipelines_under_test.window_pipeline(bench.source), by_hand.window_query
    )


def _against_hand(bench: Bench, name: str, make: Callable[[], Pipeline], query: Query) -> Iterator[Figure]:
    sinks: tuple[by_hand.Sink, ...] = ("parquet", "delta")
    for sink in sinks:
        bench.say(f"{name}: against PySpark by hand, writing {sink}")
        result = compare(
            lambda: bench.ours(make()),
            lambda s=sink: bench.by_hand(query, sink=s),  # type: ignore[misc]
            pairs=bench.pairs,
            warm_up=bench.warm_up,
        )
        what = "Parquet" if sink == "parquet" else "Delta (JVM connector)"
        yield _figure(name, f"Delta, against PySpark by hand writing {what}", result, MOST_BY_HAND)


def _figure(name: str, what: str, result: Comparison, target: float | None) -> Figure:
    return Figure(benchmark=name, what=what, value=result.ratio, unit="x", target=target, note=result.note)
