"""Joins by interval with many rows that wait: what a small batch costs beside them, by Spark's join and by a processor.

The first batch brings the rows that wait, as many as the interval holds; each small one moves the watermark, and as
many rows as it brings have waited long enough.
"""

from __future__ import annotations

import json
import os
import random
import statistics
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice
from pathlib import Path

from benchmarks.batches import Batches
from benchmarks.bench import Bench
from benchmarks.data import SEED, START
from benchmarks.measure import DifferentResultsError, Figure
from rs_assets import Pipeline, RunOptions, StreamBuilder, Time
from rs_assets.common.home import Home
from rs_assets.connectors.delta.table import open_table
from rs_assets.operators.join.spec import JoinType

NAME = "interval join"
SCHEMA = "id bigint, n bigint, ts timestamp"
# Of the generated rows of the other benchmarks, by default two million: rows that wait, and those of a small batch.
WAITING_SHARE, BATCH_SHARE = 5, 1000
WITHIN_S = 3600
BATCHES = 14
MOST_PAIRS = 3
MOST_MS = 300
# The time of the first file, in seconds since 1970.
EPOCH_S = int(START.timestamp())
# The kinds of joins, each with the rows of a side that a key has in an interval.
CASES: tuple[tuple[JoinType, str, int], ...] = (
    ("inner", "a key has a row or two", 1),
    ("left", "a key has ten rows", 10),
)


def join_figures(bench: Bench) -> Iterator[Figure]:
    """An inner join with few rows of a key, and a left one with more."""
    for how, what, rows_a_key in CASES:
        with bench.place() as folder:
            _generate(folder, bench, rows_a_key)
            yield from _figures(bench, folder, how, what)


def _figures(bench: Bench, folder: Path, how: JoinType, what: str) -> Iterator[Figure]:
    bench.say(f"{NAME}: {how}, {what}")
    pairs = [
        (_run(bench, folder, how, processor=True), _run(bench, folder, how, processor=False))
        for _ in range(min(bench.pairs, MOST_PAIRS))
    ]
    for ours, other in pairs:
        if ours.rows != other.rows:
            raise DifferentResultsError(f"the processor wrote {ours.rows} rows, Spark's join {other.rows}")
    ours, other = (_medians(runs) for runs in zip(*pairs, strict=True))
    waiting, batch = bench.rows // WAITING_SHARE, bench.rows // BATCH_SHARE
    name = f"{how}, {what}: a batch of {batch:,} rows beside {waiting:,} that wait"
    note = f"Spark's join {other[0]:.0f} ms; processor time {ours[1]:.0f} against {other[1]:.0f} ms"
    yield Figure(benchmark=NAME, what=f"{name}, processor=True", value=ours[0], unit="ms", target=MOST_MS, note=note)
    first = f"{waiting / ours[2]:,.0f} rows/s against {waiting / other[2]:,.0f}"
    yield Figure(
        benchmark=NAME,
        what=f"{how}, {what}: the first batch, of the rows that wait, against Spark's join",
        value=ours[2] / other[2],
        unit="x",
        note=first,
    )


def _medians(runs: tuple[Batches, ...]) -> tuple[float, float, float]:
    """Milliseconds of a small batch, on the clock and of processors, and seconds of the first one."""
    return (
        statistics.median(run.small_ms for run in runs),
        statistics.median(run.small_cpu_ms for run in runs),
        statistics.median(run.seconds[0] for run in runs),
    )


def _run(bench: Bench, folder: Path, how: JoinType, *, processor: bool) -> Batches:
    run = Batches()
    with bench.place() as place:
        home = Home(place)
        _pipeline(folder, how, processor=processor).run(
            RunOptions(home=home, driver=bench.driver, on_progress=run.take)
        )
        table = open_table(home.table("bench", "pairs"))
        run.rows = table.count() if table is not None else 0
    return run


def _pipeline(folder: Path, how: JoinType, *, processor: bool) -> Pipeline:
    source = StreamBuilder.data_stream("bench", "pairs")
    left, right = (
        source.from_file(str(folder / side), schema=SCHEMA, name=side, max_files_per_batch=1)
        for side in ("orders", "payments")
    )
    pairs = left.join(
        right, on="id", within=Time.seconds(WITHIN_S), how=how, time_field="ts", prefix="paid_", processor=processor
    )
    return pairs.to_delta("pairs").build()


def _generate(folder: Path, bench: Bench, rows_a_key: int) -> None:
    """Of each side a file of half of the rows that wait, and BATCHES of half of a small batch, in order of time."""
    pick = random.Random(SEED)
    waiting, small = bench.rows // WAITING_SHARE // 2, max(bench.rows // BATCH_SHARE // 2, 1)
    for side in ("orders", "payments"):
        (folder / side).mkdir(parents=True)
        numbers = count()
        for file, rows in enumerate((waiting, *[small] * BATCHES)):
            lines = []
            for number in islice(numbers, rows):
                at = START + timedelta(seconds=number * WITHIN_S / waiting)
                key = pick.randrange(max(waiting // rows_a_key, 1))
                lines.append(json.dumps({"id": key, "n": number, "ts": at.isoformat(timespec="milliseconds")}))
            path = folder / side / f"{side}-{file:03}.json"
            path.write_text("\n".join(lines) + "\n", encoding="ascii")
            # Spark reads files by the time of their change: of two in one millisecond either would be the first.
            os.utime(path, (EPOCH_S + file, EPOCH_S + file))
