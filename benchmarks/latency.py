"""How long one row takes from a memory channel into a Delta table."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, START, WINDOW_S
from benchmarks.measure import Figure
from benchmarks.pipelines_under_test import live_filter, live_window
from rs_assets import MemoryChannel, Pipeline, RunOptions
from rs_assets.common.home import Home
from rs_assets.runtime.report import BatchProgress

# A batch begins at the next multiple of it, so half of it is waiting on the average.
INTERVAL = timedelta(milliseconds=10)
# The first batches compile code and load classes.
WARM_UP_ROWS = 15
MOST_PLAIN_MS, MOST_STATE_MS = 150, 300
# Between two rows with state: Spark fires windows in a batch of its own behind the row's.
QUIET_S = 0.5
PATIENCE_S = 60


def latency_figures(bench: Bench) -> Iterator[Figure]:
    """A row is put; the clock stops when the commit of its batch is on disk."""
    cases: tuple[tuple[str, Callable[[MemoryChannel], Pipeline], int | None, bool], ...] = (
        ("a one-row batch without state", live_filter, MOST_PLAIN_MS, True),
        ("a one-row batch with a window's state", live_window, MOST_STATE_MS, True),
        ("from a row to the row of the window that it closes, in the batch behind its own", live_window, None, False),
    )
    for what, make, target, own_batch in cases:
        bench.say(f"latency: {what}")
        took = sorted(_latencies(bench, make, own_batch=own_batch))
        yield Figure(
            benchmark="latency of a row",
            what=what,
            value=statistics.median(took),
            unit="ms",
            target=target,
            note=f"p95 {took[int(len(took) * 0.95)]:.0f} ms of {len(took)} rows",
        )


def _latencies(bench: Bench, make: Callable[[MemoryChannel], Pipeline], *, own_batch: bool) -> list[float]:
    """Milliseconds from putting a row to the end of its batch, or to rows in the table; one row after the other."""
    arrived = threading.Event()

    def on_progress(progress: BatchProgress) -> None:
        if progress.rows_in if own_batch else any(progress.rows_out.values()):
            arrived.set()

    channel = MemoryChannel(schema=SCHEMA)
    took: list[float] = []
    with bench.place() as folder:
        options = RunOptions(home=Home(folder), driver=bench.driver, interval=INTERVAL, on_progress=on_progress)
        with make(channel).start(options):
            channel.put(_row(0))
            # A stateless row comes out by itself; the first of a window closes none.
            arrived.wait(2)
            for number in range(1, WARM_UP_ROWS + bench.latency_rows + 1):
                arrived.clear()
                began = time.perf_counter()
                channel.put(_row(number))
                if not arrived.wait(PATIENCE_S):
                    raise TimeoutError(f"row {number} did not arrive within {PATIENCE_S} s")
                took.append((time.perf_counter() - began) * 1000)
                if own_batch and make is live_window:
                    threading.Event().wait(QUIET_S)
    return took[WARM_UP_ROWS:]


def _row(number: int) -> dict[str, Any]:
    """A row so late that it closes the window of the one before."""
    return {"user": "u0001", "page": "/", "ts": START + timedelta(seconds=3 * WINDOW_S * number), "ms": number}
