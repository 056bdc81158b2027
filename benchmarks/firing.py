"""Windows that fire more than once, beside the same windows that fire once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from benchmarks import pipelines_under_test
from benchmarks.bench import Bench
from benchmarks.measure import Comparison, Figure, compare
from rs_assets import Pipeline, Time

How = Callable[[Any], Any]
ONCE = "on_window_close"


def _as_it_is(windows: Any) -> Any:
    return windows


# How often they fire, and how a window is told so.
WAYS: Mapping[str, tuple[str, How]] = MappingProxyType(
    {
        "late_firings('deltas')": (ONCE, lambda windows: windows.late_firings("deltas")),
        "late_firings('totals')": (ONCE, lambda windows: windows.late_firings("totals")),
        "emit_before": (ONCE, lambda windows: windows.emit_before(Time.seconds(2))),
        "emit_after": (ONCE, lambda windows: windows.emit_after(Time.seconds(5), until=Time.seconds(20))),
        "on_update_and_close": ("on_update_and_close", _as_it_is),
        "on_record": ("on_record", _as_it_is),
    }
)


def firing_figures(bench: Bench) -> Iterator[Figure]:
    """Windows of 10 s by user, each way of firing against once; sessions; a function in Python against Spark's."""

    def plain() -> Pipeline:
        return pipelines_under_test.window_pipeline(bench.source)

    for name, (emit, how) in WAYS.items():
        yield _figure(bench, name, _fired(bench, emit, how), plain)
    yield _figure(bench, "reduce in Python", lambda: pipelines_under_test.reduced_pipeline(bench.source), plain)
    merged = "reduce in Python with merge"
    yield _figure(bench, merged, lambda: pipelines_under_test.merged_pipeline(bench.source), plain)
    updates, once = (_fired(bench, emit, _as_it_is, session=True) for emit in ("on_update_and_close", ONCE))
    yield _figure(bench, "sessions, on_update_and_close", updates, once)


def _fired(bench: Bench, emit: str, how: How, *, session: bool = False) -> Callable[[], Pipeline]:
    return lambda: pipelines_under_test.fired_pipeline(bench.source, emit=emit, how=how, session=session)


def _figure(bench: Bench, name: str, often: Callable[[], Pipeline], once: Callable[[], Pipeline]) -> Figure:
    bench.say(f"windows that fire more than once: {name}")
    result = compare(
        lambda: _run(bench, often()), lambda: _run(bench, once()), pairs=bench.pairs, warm_up=bench.warm_up
    )
    return Figure(
        benchmark="windows that fire more than once",
        what=f"{name}, against once",
        value=result.ratio,
        unit="x",
        note=f"{result.note}; {_rows_a_second(bench, result):,.0f} rows/s",
    )


def _run(bench: Bench, pipeline: Pipeline) -> int:
    """They write different numbers of rows: what must be equal is what they read."""
    bench.ours(pipeline)
    return bench.rows


def _rows_a_second(bench: Bench, result: Comparison) -> float:
    return bench.rows / min(taken.seconds for taken in result.ours)
