"""What does not grow with the rows: a commit into a large table, and the fixed cost of a run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks import by_hand
from benchmarks.bench import Bench, Query
from benchmarks.data import RARE_PAGE, START
from benchmarks.measure import Figure, timed
from benchmarks.pipelines_under_test import filter_pipeline, window_pipeline
from rs_assets import Pipeline, RunOptions
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.run.run import wire_all

FEW_FILES, MANY_FILES = 100, 40_000
# Processor time of a run beyond PySpark by hand, in milliseconds.
MOST_FILTER_MS, MOST_WINDOWS_MS = 70, 245
MOST_GROWTH = 2.0
# As many as Spark has tasks for in a moment, and enough that their tasks are not one.
SMALL_FILES = 8


def small_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    yield _commits(bench)
    with bench.place() as source:
        _write_rows(source)
        for name, make, query, most_ms in (
            ("filter", filter_pipeline, by_hand.filter_query, MOST_FILTER_MS),
            ("10 s windows", window_pipeline, by_hand.window_query, MOST_WINDOWS_MS),
        ):
            yield from _fixed(bench, name, partial(make, source), query, source, most_ms=most_ms)
        yield from _again(bench, filter_pipeline(source))


def _commits(bench: Bench) -> Figure:
    """Looking for the marker and committing a batch, in turns; what Spark writes is not counted."""
    bench.say("commits into large tables")
    with bench.place() as folder:
        writers = {files: _table_of(folder / str(files), files) for files in (FEW_FILES, MANY_FILES)}
        took: dict[int, list[float]] = {files: [] for files in writers}
        # A hundred versions: one commit of them makes a checkpoint of the log.
        for batch in range(max(bench.latency_rows, 2)):
            mark = BatchMark("bench", 1, "rows", batch, 1)
            for files, writer in writers.items():
                took[files].append(_commit_ms(bench, writer, mark))
    few, many = (statistics.median(took[files]) for files in (FEW_FILES, MANY_FILES))
    means = " and ".join(f"{statistics.mean(took[files]):.1f}" for files in took)
    return Figure(
        benchmark="small batches",
        what=f"a commit into a table of {MANY_FILES:,} files against one of {FEW_FILES}",
        value=many / few,
        unit="x",
        target=MOST_GROWTH,
        note=f"{many:.1f} ms against {few:.1f} ms; means {means} ms",
    )


def _commit_ms(bench: Bench, writer: DeltaWriter, mark: BatchMark) -> float:
    began = time.perf_counter()
    assert not writer.committed(mark)
    looked = time.perf_counter() - began
    staged = bench.driver.call(lambda spark: writer.stage(spark.range(1).toDF("n"), mark))
    began = time.perf_counter()
    staged.commit()
    return (looked + time.perf_counter() - began) * 1000


def _table_of(path: Path, files: int) -> DeltaWriter:
    """A table that names as many files, which are not there, and whose log has a checkpoint behind them."""
    table = DeltaTable.create(str(path), pa.schema([("n", pa.int64())]))
    facts = json.dumps({"numRecords": 1, "minValues": {"n": 1}, "maxValues": {"n": 1}, "nullCount": {"n": 0}})
    actions = [AddAction(f"old-{n:05d}.parquet", 1_000, {}, 1, data_change=True, stats=facts) for n in range(files)]
    table.create_write_transaction(actions, "append", table.schema(), [])
    table.update_incremental()
    table.create_checkpoint()
    return DeltaWriter("rows", str(path))


def _write_rows(folder: Path) -> None:
    for number in range(SMALL_FILES):
        at = (START + timedelta(seconds=number)).isoformat()
        row = {"user": f"u{number}", "page": RARE_PAGE, "ts": at, "ms": number}
        (folder / f"{number}.json").write_text(f"{json.dumps(row)}\n")


def _fixed(
    bench: Bench, name: str, make: Callable[[], Pipeline], query: Query, source: Path, *, most_ms: float
) -> Iterator[Figure]:
    """What a run over a row a file takes beyond PySpark by hand, which has no manifest, lease, catalog or flush."""
    bench.say(f"fixed cost: {name}")
    extra: list[tuple[float, float]] = []
    for number in range(bench.warm_up + bench.pairs):
        ours, _ = timed(lambda: bench.ours(make()))
        hand, _ = timed(lambda: bench.by_hand(query, sink="parquet", source=source))
        if number >= bench.warm_up:
            extra.append(((ours.seconds - hand.seconds) * 1000, (ours.cpu_s - hand.cpu_s) * 1000))
    for what, of, target in (("on the clock", 0, None), ("of processor time", 1, most_ms)):
        yield Figure(
            benchmark="fixed cost of a run",
            what=f"{name}, {SMALL_FILES} rows, beyond PySpark by hand, {what}",
            value=statistics.median(pair[of] for pair in extra),
            unit="ms",
            target=target,
        )


def _again(bench: Bench, pipeline: Pipeline) -> Iterator[Figure]:
    """A run that finds nothing new, in a process that has run the pipeline; and what stands before its query."""
    bench.say("fixed cost: nothing new")
    again, planned = [], []
    with bench.place() as folder:
        options = RunOptions(home=Home(folder), driver=bench.driver)
        # Unfinished: a run that is sealed does nothing at all.
        pipeline.run(options, finish=False)
        for _ in range(bench.warm_up + bench.pairs):
            again.append(timed(lambda: pipeline.run(options, finish=False).rows_in)[0].seconds * 1000)
            with opened(pipeline.topology, options) as session:
                began = time.perf_counter()
                plan_queries(pipeline.topology)
                bench.driver.call(partial(wire_all, session))
                planned.append((time.perf_counter() - began) * 1000)
    for what, took in (
        ("a run without new input, in a process that has run it, with Spark's part", again),
        ("planning and wiring of a pipeline of one step, with Spark's part", planned),
    ):
        value = statistics.median(took[bench.warm_up :])
        yield Figure(benchmark="fixed cost of a run", what=what, value=value, unit="ms")
