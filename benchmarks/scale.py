"""What grows with a pipeline or a project: columns, steps, pipelines in a code location."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, START
from benchmarks.measure import Figure
from rs_assets import Pipeline, StreamBuilder, Time, TumblingWindow, build_definitions

COLUMNS, STEPS, PIPELINES = (10, 100, 300), (10, 100, 400), (1, 10, 30)
# Of each number of columns as many values are read, for a row of the other benchmarks.
VALUES_PER_ROW = 1.5


def scale_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    yield from map(partial(_columns, bench), COLUMNS)
    with bench.place() as source:
        row = {"user": "u", "page": "/", "ts": START.isoformat(), "ms": 1}
        (source / "row.json").write_text(f"{json.dumps(row)}\n")
        for steps in STEPS:
            yield from _steps(bench, source, steps)
        yield from _pipelines(bench, source)


def _columns(bench: Bench, columns: int) -> Figure:
    """A copy of as many values in rows of more and more columns."""
    rows = max(int(bench.rows * VALUES_PER_ROW) // columns, 1)
    names = [f"c{number:03d}" for number in range(columns)]
    schema = ", ".join(f"{name} bigint" for name in names)

    def ours(source: Path) -> Pipeline:
        read = StreamBuilder.data_stream("bench", f"columns_{columns}").from_file(str(source), schema=schema)
        return read.to_delta("copied").build()

    def by_hand(spark: SparkSession, source: Path) -> DataFrame:
        return spark.readStream.schema(schema).name("rows").json(str(source))

    bench.say(f"{columns} columns")
    with bench.place() as source:
        with (source / "rows.json").open("w") as file:
            for row in range(rows):
                file.write(json.dumps({name: row * columns + place for place, name in enumerate(names)}) + "\n")
        found = bench.against_hand(ours, by_hand, source, sink="parquet")
    what = f"a copy of {rows:,} rows of {columns}, against PySpark by hand writing Parquet"
    return Figure(benchmark="columns", what=what, value=found.ratio, unit="x", note=found.note)


def _steps(bench: Bench, source: Path, steps: int) -> Iterator[Figure]:
    """A run over one row through a chain of steps, and the time until the pipeline is built."""

    def ours(source: Path) -> Pipeline:
        stream = StreamBuilder.data_stream("bench", f"steps_{steps}").from_file(str(source), schema=SCHEMA)
        for number in range(steps):
            stream = stream.with_fields(ms=f"ms + {number}")
        return stream.to_delta("counted").build()

    def by_hand(spark: SparkSession, source: Path) -> DataFrame:
        frame = spark.readStream.schema(SCHEMA).name("rows").json(str(source))
        for number in range(steps):
            frame = frame.withColumn("ms", F.expr(f"ms + {number}"))
        return frame

    bench.say(f"{steps} steps")
    found = bench.against_hand(ours, by_hand, source, sink="parquet")
    what = f"a run over a row through {steps}, against PySpark by hand writing Parquet"
    yield Figure(benchmark="steps", what=what, value=found.ratio, unit="x", note=found.note)
    built = _median_ms(bench, lambda: ours(source))
    yield Figure(benchmark="steps", what=f"a pipeline of {steps} is built and checked", value=built, unit="ms")


def _pipelines(bench: Bench, source: Path) -> Iterator[Figure]:
    """What Dagster loads for pipelines of a window each."""
    for number in PIPELINES:
        bench.say(f"{number} pipelines")
        made = [_windows(source, f"windows_{each}") for each in range(number)]

        def loaded(pipelines: list[Pipeline] = made) -> int:
            location = build_definitions(pipelines).get_repository_def()
            return len(location.sensor_defs) + len(location.schedule_defs)

        ticking = loaded()
        yield Figure(
            benchmark="pipelines of a code location",
            what=f"definitions of {number}",
            value=_median_ms(bench, loaded),
            unit="ms",
            note=f"{ticking} sensors and schedules",
        )


def _windows(source: Path, job: str) -> Pipeline:
    read = StreamBuilder.data_stream("bench", job).from_file(str(source), schema=SCHEMA)
    counts = read.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("user").count("n")
    made: Pipeline = counts.to_delta(job).build()
    return made


def _median_ms(bench: Bench, run: Callable[[], object]) -> float:
    took = list[float]()
    for _ in range(bench.warm_up + bench.pairs):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[bench.warm_up :])
