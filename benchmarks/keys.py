"""Windows by the number of their keys: against PySpark by hand, each way of firing, and a small batch on a large state.

The more keys, the fewer windows, so that a key has some ten rows in a window as far as there are enough rows for that.
With fewer rows than two million there are as many fewer keys, and figures name those that there are.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import by_hand
from benchmarks.batches import Batches
from benchmarks.bench import Bench
from benchmarks.data import WINDOWS, generate
from benchmarks.firing import WAYS
from benchmarks.measure import MICROSECONDS, Comparison, Figure, slopes_us, timed
from benchmarks.pipelines_under_test import fired_pipeline, reduced_pipeline, window_pipeline
from rs_assets import Pipeline, RunOptions
from rs_assets.common.home import Home

NAME = "windows by keys"
# Of many keys and of very many, and the table of what a row costs: of ALL_ROWS.
KEYS = (10_000, 200_000)
TABLE = (10, 1_000, 100_000, 1_000_000)
ROWS_A_KEY, FEWEST_WINDOWS, ALL_ROWS = 10, 2, 2_000_000
QUARTER = 4
MOST_PAIRS = 3
MOST_BY_HAND, MOST_SMALL = 1.05, 1.5
# At least so many rows a second; a figure is a cost, so microseconds for a row are compared.
LEAST_ROWS, LEAST_REDUCED = 100_000, 60_000
REDUCED = "reduce in Python"
SMALL_ROWS, SMALL_BATCHES = 100, 14


def key_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    many = [scaled(keys, bench.rows) for keys in KEYS]
    for keys in many:
        yield _against_hand(bench, keys)
    for keys in many:
        for name in (*WAYS, REDUCED):
            yield _rate(bench, name, keys)
    yield from _table(bench)
    yield from _small(bench)


def scaled(keys: int, rows: int, *, step: int = 1) -> int:
    """How many keys so many rows have, where ALL_ROWS have `keys`; a multiple of `step`."""
    return max(keys * rows // ALL_ROWS // step, 1) * step


def _source(bench: Bench, keys: int, *, rows: int) -> Path:
    """The folder of rows with as many keys, made at its first use."""
    folder = bench.folder / f"keys-{keys}-{rows}"
    return folder if folder.exists() else generate(folder, rows=rows, users=keys, windows=windows_of(rows, keys))


def windows_of(rows: int, keys: int) -> int:
    """In how many windows the rows lie, so that a key has enough of them in each."""
    return min(max(rows // (keys * ROWS_A_KEY), FEWEST_WINDOWS), WINDOWS)


def _against_hand(bench: Bench, keys: int) -> Figure:
    bench.say(f"{NAME}: {keys:,}, against PySpark by hand")
    fewer = replace(bench, pairs=min(bench.pairs, MOST_PAIRS), warm_up=min(bench.warm_up, 1))
    taken: list[Comparison] = []
    sizes = (bench.rows, bench.rows // QUARTER)
    for rows in sizes:
        source = _source(bench, keys, rows=rows)
        taken.append(fewer.against_hand(window_pipeline, by_hand.window_query, source, sink="parquet"))
    many, few = taken
    ours, other = slopes_us(many, few, sizes[0] - sizes[1])
    return Figure(
        benchmark=NAME, what=f"{keys:,}: processor time of a row, against PySpark by hand writing Parquet",
        value=ours / other if other > 0 else many.cpu_ratio, unit="x", target=MOST_BY_HAND,
        note=f"{ours:.2f} against {other:.2f} µs; in all {many.note}",
    )  # fmt: skip


def _made(name: str, source: Path, *, files: int | None = None) -> Pipeline:
    """The pipeline of a way of firing, by its name."""
    if name == REDUCED:
        return reduced_pipeline(source, files=files)
    emit, how = WAYS[name]
    return fired_pipeline(source, emit=emit, how=how, files=files)


def _rate(bench: Bench, name: str, keys: int) -> Figure:
    bench.say(f"{NAME}: {keys:,}, {name}")
    source = _source(bench, keys, rows=bench.rows)
    seconds, cpu = costs(bench, lambda: _made(name, source))
    return row_cost(NAME, name, keys=keys, rows=bench.rows, seconds=seconds, more=f"; processor time {cpu:.1f} µs")


def costs(bench: Bench, make: Callable[[], Pipeline]) -> tuple[float, float]:
    """The seconds of a run over all rows, and microseconds of processor time for a row: medians behind a first run."""
    runs = [timed(lambda: bench.ours(make()))[0] for _ in range(1 + min(bench.pairs, MOST_PAIRS))]
    cpu = statistics.median(taken.cpu_s for taken in runs[1:]) / bench.rows * MICROSECONDS
    return statistics.median(taken.seconds for taken in runs[1:]), cpu


def row_cost(benchmark: str, name: str, *, keys: int, rows: int, seconds: float, more: str = "") -> Figure:
    """What a row costs on the clock in a way of firing, where there are so many keys."""
    least = LEAST_REDUCED if name == REDUCED else LEAST_ROWS
    return Figure(
        benchmark=benchmark, what=f"{keys:,}: {name}, a row", value=seconds / rows * MICROSECONDS, unit="µs",
        target=MICROSECONDS / least, note=f"{rows / seconds:,.0f} rows/s{more}",
    )  # fmt: skip


def _table(bench: Bench) -> Iterator[Figure]:
    """What a row costs with few keys and with many."""
    for keys in (scaled(keys, bench.rows) for keys in TABLE):
        source = _source(bench, keys, rows=bench.rows)
        for what, pipeline in (
            ("fires once", partial(window_pipeline, source)),
            ("emit_before", partial(_made, "emit_before", source)),
        ):
            bench.say(f"{NAME}: {keys:,}, {what}")
            runs = [timed(lambda make=pipeline: bench.ours(make()))[0] for _ in range(2)]  # type: ignore[misc]
            cpu, seconds = (min(r.cpu_s for r in runs), min(r.seconds for r in runs))
            yield Figure(
                benchmark=NAME, what=f"{keys:,}: {what}, processor time of a row",
                value=cpu / bench.rows * MICROSECONDS, unit="µs", note=f"{bench.rows / seconds:,.0f} rows/s",
            )  # fmt: skip


def _small(bench: Bench) -> Iterator[Figure]:
    """Batches of few rows while a window of many keys is open."""
    with bench.place() as folder:
        write_small(folder, keys=scaled(KEYS[-1], bench.rows))
        native = batches_of(bench, window_pipeline(folder, files=1))
        for name in (*WAYS, REDUCED):
            bench.say(f"{NAME}: a small batch, {name}")
            own = batches_of(bench, _made(name, folder, files=1))
            yield Figure(
                benchmark=NAME,
                what=f"a batch of {SMALL_ROWS} rows beside {native.state_rows:,} rows of state: {name}, against once",
                value=own.small_ms / native.small_ms, unit="x", target=MOST_SMALL,
                note=f"{own.small_ms:.0f} against {native.small_ms:.0f} ms; "
                f"processor time {own.small_cpu_ms:.0f} against {native.small_cpu_ms:.0f} ms",
            )  # fmt: skip


def write_small(folder: Path, *, keys: int) -> None:
    """A file with a row of each key as far as chance has it, and small ones in its window behind it."""
    for part, (rows, files) in enumerate(((2 * keys, 1), (SMALL_ROWS * SMALL_BATCHES, SMALL_BATCHES))):
        made = generate(folder / f"part-{part}", rows=rows, files=files, users=keys, windows=1)
        for number in range(files):
            (made / f"views-{number}.json").rename(folder / f"{part}-{number:03}.json")
        made.rmdir()


def batches_of(bench: Bench, pipeline: Pipeline) -> Batches:
    """The batches of a run in a place of its own."""
    batches = Batches()
    with bench.place() as place:
        pipeline.run(RunOptions(home=Home(place), driver=bench.driver, on_progress=batches.take))
    return batches
