"""What a row costs in a Python function with state, beside a window that computes the same without Python."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, generate
from benchmarks.measure import MICROSECONDS, Figure, timed
from rs_assets import GlobalWindow, MapStore, Pipeline, Processor, StreamBuilder, Time, ValueStore

NAME = "processors"
KEYS = 200_000
FILES_PER_BATCH = 2
STATE, MADE = "n bigint, total bigint", "user string, n bigint, total bigint"


def count(key: dict[str, Any], state: dict[str, Any] | None, rows: list[dict[str, Any]]) -> Any:
    """The rows of a user and the sum of their milliseconds, so far."""
    n, total = (state["n"], state["total"]) if state else (0, 0)
    now = {"n": n + len(rows), "total": total + sum(row["ms"] for row in rows)}
    return now, [{"user": key["user"], **now}]


def counts(state: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same for all users of a batch."""
    new = pa.table({"user": rows["user"], "n": pa.repeat(1, rows.num_rows), "total": rows["ms"]})
    both = pa.concat_tables([state, new]).group_by("user").aggregate([("n", "sum"), ("total", "sum")])
    now = both.rename_columns({"n_sum": "n", "total_sum": "total"})
    return now, now


class Count(Processor):
    """The same, a row at a time."""

    totals = ValueStore(STATE)

    def process(self, key: dict[str, Any], row: dict[str, Any], context: Any) -> None:
        """Count a row."""
        was = context.totals.get() or {"n": 0, "total": 0}
        now = {"n": was["n"] + 1, "total": was["total"] + row["ms"]}
        context.totals.put(now)
        context.forward({**key, **now})


class Pages(Processor):
    """The rows of each page of a user, until there was none for an hour."""

    pages = MapStore("page string", "n bigint, total bigint")

    def process(self, key: dict[str, Any], row: dict[str, Any], context: Any) -> None:
        """Count a row."""
        was = context.pages.get(row["page"]) or {"n": 0, "total": 0}
        now = {"n": was["n"] + 1, "total": was["total"] + row["ms"]}
        context.pages.put(row["page"], now)
        context.forward({**key, **now})
        context.schedule_at(context.time + Time.hours(1), self.forget)

    def forget(self, key: dict[str, Any], at: datetime, context: Any) -> None:  # noqa: ARG002  the form of a timer
        """Forget the user."""
        context.pages.clear()


def processor_figures(bench: Bench) -> Iterator[Figure]:
    """Time on the clock of a row of 200,000 keys in four batches, for each form; reading and writing included."""
    with bench.place() as folder:
        bench.say(f"generating {bench.rows:,} rows of {KEYS:,} keys")
        sources = [generate(folder / f"{part}", rows=rows, users=KEYS) for part, rows in enumerate(_sizes(bench))]
        for what, make, target in (
            ("the same by a GlobalWindow, without Python", _by_window, None),
            ("process_values", _by_values, 1 / 40_000 * MICROSECONDS),
            ("process_batch", _by_batch, 1 / 70_000 * MICROSECONDS),
            ("process, with a value store", _by_processor, None),
            ("process, with a map store and a timer", _with_timer, None),
        ):
            yield _figure(bench, sources, what, make, target)


def _sizes(bench: Bench) -> tuple[int, int]:
    """A part of the rows, and all: the difference has no start of a run in it."""
    return bench.rows // 4, bench.rows


def _figure(
    bench: Bench, sources: list[Path], what: str, make: Callable[[Path], Pipeline], target: float | None
) -> Figure:
    bench.say(f"{NAME}: {what}")
    bench.ours(make(sources[1]))
    runs = [partial(bench.ours, make(source)) for source in sources]
    pairs = [[timed(run)[0] for run in runs] for _ in range(bench.pairs)]
    part, rows = _sizes(bench)
    seconds = statistics.median(all_.seconds - some.seconds for some, all_ in pairs) / (rows - part)
    whole = statistics.median(all_.seconds for _, all_ in pairs)
    return Figure(
        benchmark=NAME,
        what=f"{what}, time on the clock of a row",
        value=seconds * MICROSECONDS,
        unit="µs",
        target=target,
        note=f"{1 / seconds:,.0f} rows/s between {part:,} and {rows:,} rows; {whole:.1f} s for all, with the start",
    )


def _views(source: Path) -> Any:
    builder = StreamBuilder.data_stream("bench", "processors")
    return builder.from_file(str(source), schema=SCHEMA, max_files_per_batch=FILES_PER_BATCH)


def _by_window(source: Path) -> Pipeline:
    windows = _views(source).window(GlobalWindow.of()).group_by("user")
    return windows.count("n").sum("ms", "total").to_data_stream().to_delta("totals").build()


def _by_values(source: Path) -> Pipeline:
    return _views(source).process_values(count, keys="user", state=STATE, schema=MADE).to_delta("totals").build()


def _by_batch(source: Path) -> Pipeline:
    return _views(source).process_batch(counts, keys="user", state=STATE, schema=MADE).to_delta("totals").build()


def _by_processor(source: Path) -> Pipeline:
    return _views(source).process(Count, keys="user", schema=MADE).to_delta("totals").build()


def _with_timer(source: Path) -> Pipeline:
    pages = _views(source).process(Pages, keys="user", schema=MADE, time_field="ts", water_mark=Time.minutes(1))
    return pages.to_delta("totals").build()
