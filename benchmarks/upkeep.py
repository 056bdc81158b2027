"""What trust costs: catalog, lease and preflight per batch; savepoints, restores and lookups of a million keys."""

from __future__ import annotations

import random
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, START
from benchmarks.measure import Figure
from benchmarks.pipelines_under_test import live_filter
from rs_assets import MemoryChannel, Pipeline, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home
from rs_assets.operators.state.served import ServedState
from rs_assets.operators.state.snapshot import state_at
from rs_assets.runtime.job.preflight import verify
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.record.journal import Journal
from rs_assets.runtime.upkeep.savepoints import restore, savepoint
from rs_assets.runtime.upkeep.state import served_folder, snapshot_state

BATCH_ROWS = 1_000
INTERVAL = timedelta(milliseconds=10)
PATIENCE_S = 60
LOOKUPS = 20_000
WARM_UP_BATCHES = 10
# A difference of a few percent shows only in so many times the rows of other latencies.
MORE = 4
OLD_BATCHES = 1_000


def upkeep_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    yield _batch_cost(bench)
    yield _preflight(bench)
    yield from _million(bench)


class Live:
    """A started pipeline that is given one batch after the other; with or without catalog and lease checks."""

    def __init__(self, bench: Bench, folder: Path, stack: ExitStack, *, job: str) -> None:
        self.channel = MemoryChannel(schema=SCHEMA)
        self.done = threading.Event()
        options = RunOptions(
            home=Home(folder / job), driver=bench.driver, interval=INTERVAL, on_progress=lambda _: self.done.set()
        )
        stack.enter_context(live_filter(self.channel, job=job).start(options))

    def batch(self, rows: list[dict[str, Any]]) -> float:
        """Milliseconds from putting the rows to the end of their batch."""
        self.done.clear()
        began = time.perf_counter()
        self.channel.put(*rows)
        if not self.done.wait(PATIENCE_S):
            raise TimeoutError("a batch did not end")
        return (time.perf_counter() - began) * 1000


def _batch_cost(bench: Bench) -> Figure:
    bench.say("catalog, lease and preflight")
    rows = [{"user": f"u{n}", "page": "/", "ts": START, "ms": n} for n in range(BATCH_ROWS)]
    took: dict[str, list[float]] = {"with": [], "without": []}
    with bench.place() as folder, ExitStack() as stack:
        lives = {kind: Live(bench, folder, stack, job=kind) for kind in took}
        for number in range(bench.latency_rows * MORE + WARM_UP_BATCHES):
            for kind, live in sorted(lives.items(), reverse=bool(number % 2)):
                with ExitStack() as off:
                    if kind == "without":
                        off.enter_context(patch.object(Journal, "put", lambda *_: None))
                        off.enter_context(patch.object(Lease, "check", lambda *_: None))
                    one = live.batch(rows)
                if number >= WARM_UP_BATCHES:
                    took[kind].append(one)
    ratio = statistics.median(took["with"]) / statistics.median(took["without"])
    return Figure(
        benchmark="cost of upkeep",
        what=f"catalog and lease, {BATCH_ROWS:,} rows a batch, against none",
        value=ratio,
        unit="x",
        target=1.05,
        note=f"{statistics.median(took['with']):.0f} ms against {statistics.median(took['without']):.0f} ms a batch",
    )


def _preflight(bench: Bench) -> Figure:
    bench.say("preflight of 1,000 batches")
    with bench.place() as folder:
        options = RunOptions(home=Home(folder / "rs"), driver=bench.driver)
        (folder / "in.jsonl").write_text('{"n":1}\n')
        job = StreamBuilder.data_stream("bench", "old").from_file(folder / "in.jsonl", schema="n bigint", tail=True)
        pipeline = job.to_delta("old").build()
        pipeline.run(options)
        checkpoint = options.home.job("bench", "old") / "g0001" / "file" / "checkpoint"
        for name in ("offsets", "commits"):
            text = (checkpoint / name / "0").read_text()
            for number in range(1, OLD_BATCHES):
                (checkpoint / name / str(number)).write_text(text)
        took = _seconds(lambda: verify(pipeline.topology, options))
    return Figure(
        benchmark="cost of upkeep",
        what="preflight of a checkpoint with 1,000 batches",
        value=took,
        unit="s",
        target=2.0,
    )


def keyed(folder: Path) -> Pipeline:
    """A window that sums up by key, over a folder of files."""
    stream = StreamBuilder.data_stream("bench", "keys").from_file(
        folder / "in", schema="k bigint, v bigint, ts timestamp"
    )
    window = stream.window(TumblingWindow.of(Time.days(1), "ts")).group_by("k").sum("v", "total")
    return window.water_mark(Time.days(1)).to_data_stream().to_delta("keys").build()


def write_keys(folder: Path, name: str, *, first: int, last: int) -> None:
    """A file of rows that touch the keys `first` to `last`."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f".{name}.tmp"
    with hidden.open("w") as file:
        file.writelines(f'{{"k":{n},"v":1,"ts":"2024-01-01T00:00:00Z"}}\n' for n in range(first, last))
    hidden.rename(folder / "in" / name)


def _million(bench: Bench) -> Iterator[Figure]:
    # A million with the usual number of rows.
    keys = bench.rows // 2
    bench.say(f"a state of {keys:,} keys")
    with bench.place() as folder:
        options = RunOptions(home=Home(folder / "rs"), driver=bench.driver)
        pipeline = keyed(folder)
        write_keys(folder, "all.json", first=0, last=keys)
        pipeline.run(options)
        taken = []
        first = _seconds(lambda: taken.append(savepoint(pipeline.topology, options)))
        yield _figure("first savepoint", first, f"{taken[-1].bytes_new / 1e6:.0f} MB copied")
        rows = _seconds(lambda: snapshot_state(pipeline.topology, options))
        yield _figure("its state as rows and as a copy for lookups, first time", rows)
        write_keys(folder, "some.json", first=0, last=max(keys // 100, 1))
        pipeline.run(options)
        again = _seconds(lambda: taken.append(savepoint(pipeline.topology, options)))
        yield _figure("savepoint after 1 % changed", again, f"{taken[-1].bytes_new / 1e6:.0f} MB copied")
        rows = _seconds(lambda: snapshot_state(pipeline.topology, options))
        yield _figure("its state as rows, 1 % changed", rows)
        yield from _lookups(pipeline, options)
        back = _seconds(lambda: restore(pipeline.topology, replace(options), savepoint_id=taken[0].id))
        yield _figure("restore of the first savepoint", back)
        shutil.rmtree(folder / "rs")


def _lookups(pipeline: Pipeline, options: RunOptions) -> Iterator[Figure]:
    home = options.home
    keys = state_at(str(home.state / "bench" / "keys" / "window"))["key"].to_pylist()
    chosen = random.Random(7).choices(keys, k=LOOKUPS)
    with ServedState(served_folder(pipeline.topology, "window", home)) as served:
        took = sorted(_seconds(lambda key=key: served.get(key)) * 1000 for key in chosen)  # type: ignore[misc]
    yield Figure(
        benchmark="a state of a million keys",
        what="lookup of one key, p99",
        value=took[int(len(took) * 0.99)],
        unit="ms",
        target=5.0,
        note=f"p50 {statistics.median(took):.3f} ms of {LOOKUPS:,} lookups",
    )


def _figure(what: str, seconds: float, note: str = "") -> Figure:
    return Figure(benchmark="a state of a million keys", what=what, value=seconds, unit="s", note=note)


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
