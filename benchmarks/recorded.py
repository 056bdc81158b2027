"""What recorded batches cost: a try of equal code against the run itself, and a stream while a backfill runs.

Run as a module with a folder of rows, a home and a flag it is the process that backfills, as the command line does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.by_hand import WATER_MARK_S
from benchmarks.data import FILES, RARE_PAGE, SCHEMA, WINDOW_S, generate
from benchmarks.measure import MICROSECONDS, Comparison, Figure, compare, slopes_us
from benchmarks.throughput import TENFOLD
from rs_assets import EventTimePartitions, Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.common.priority import DEFAULT, NICE, give_way
from rs_assets.runtime.report import BatchProgress

# Of a try of equal code, against the processor time of the run; of a stream that keeps 70 % of its throughput.
MOST_OF_A_TRY, MOST_BESIDE = 1.3, 1 / 0.7
FILES_PER_BATCH = FILES // 4
PARTITION = "2024-01-01-00:00"
# The stream reads so many files for one measurement, of a 40th of the rows each, after those of the partition.
GROUP, SHARE, HISTORY = 4, 40, 12
HOUR_S, USERS = 3600, 200
INTERVAL = timedelta(milliseconds=10)
PATIENCE_S = 300


def recorded_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    ways: tuple[tuple[str, Callable[[Path], Pipeline]], ...] = (
        ("filter, 1 % kept, partitions", _filtered),
        ("10 s windows, partitions, as one batch", partial(_windows, partitions=_hours("start_time"))),
        ("10 s windows, the whole table, as a stream", _windows),
    )
    for what, make in ways:
        yield from _tries(bench, what, make)
    yield _beside(bench, DEFAULT)
    yield _beside(bench, 0)


def _hours(by: str) -> EventTimePartitions:
    return EventTimePartitions.hourly(by, since="2024-01-01", settle=Time.seconds(WATER_MARK_S))


def _views(source: Path, files: int) -> Any:
    views = StreamBuilder.data_stream("bench", "recorded")
    return views.from_file(str(source), schema=SCHEMA, max_files_per_batch=files)


def _filtered(source: Path) -> Pipeline:
    rare = _views(source, FILES_PER_BATCH).filter(f"page = '{RARE_PAGE}'")
    made: Pipeline = rare.to_delta("rare", partitions=_hours("ts")).build()
    return made


def _windows(source: Path, *, partitions: EventTimePartitions | None = None, files: int = FILES_PER_BATCH) -> Pipeline:
    windows = _views(source, files).window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts")).group_by("user")
    sums = windows.count("views").sum("ms", "total_ms").water_mark(Time.seconds(WATER_MARK_S))
    made: Pipeline = sums.to_data_stream().to_delta("per_user", partitions=partitions).build()
    return made


def _tries(bench: Bench, what: str, make: Callable[[Path], Pipeline]) -> Iterator[Figure]:
    """The whole of both, of all rows and of ten times as many; by these what a row costs, and what the rest does."""
    name, against = "a try of equal code", "processor time against the run's"
    few = _try(bench, what, make, bench.rows)
    yield Figure(
        benchmark=name, what=f"{what}, {against}", value=few.cpu_ratio, unit="x", target=MOST_OF_A_TRY, note=few.note
    )
    many = _try(replace(bench, warm_up=min(bench.warm_up, 1)), what, make, TENFOLD * bench.rows)
    yield Figure(
        benchmark=name, what=f"{what}, {TENFOLD * bench.rows:,} rows, {against}", value=many.cpu_ratio, unit="x",
        target=MOST_OF_A_TRY, note=many.note,
    )  # fmt: skip
    slopes = slopes_us(many, few, (TENFOLD - 1) * bench.rows)
    yield Figure(
        benchmark=name, what=f"{what}, of a row, {against}",
        # Of few rows the noise may be larger than what they cost.
        value=slopes[0] / slopes[1] if slopes[1] > 0 else many.cpu_ratio, unit="x", target=MOST_OF_A_TRY,
        note=f"{slopes[0]:.3f} against {slopes[1]:.3f} µs",
    )  # fmt: skip
    fixed = [
        statistics.median(taken.cpu_s for taken in runs) - slope * bench.rows / MICROSECONDS
        for runs, slope in zip((few.ours, few.other), slopes, strict=True)
    ]
    yield Figure(
        benchmark=name, what=f"{what}, whatever the number of rows, {against}", value=fixed[0] / fixed[1], unit="x",
        note=f"{fixed[0]:.2f} against {fixed[1]:.2f} s",
    )  # fmt: skip


def _try(bench: Bench, what: str, make: Callable[[Path], Pipeline], rows: int) -> Comparison:
    """Both over so many rows; the try reads what a run has recorded once."""
    bench.say(f"a try of {rows:,} rows: {what}")
    with bench.place() as folder:
        pipeline, options = make(bench.views(rows)), RunOptions(home=Home(folder), driver=bench.driver)
        _run(pipeline, options)

        def tried() -> int:
            found = pipeline.compare(options)
            assert found.empty
            return found.rows_after

        def run() -> int:
            with bench.place() as home:
                return _run(pipeline, replace(options, home=Home(home)))

        return compare(tried, run, pairs=bench.pairs, warm_up=bench.warm_up)


def _run(pipeline: Pipeline, options: RunOptions) -> int:
    """The rows of a run that closes all partitions."""
    return pipeline.run(options, finish=True).rows_out


@dataclass(slots=True)
class _Stream:
    """A started pipeline over a folder that gets more files; `waiting` has them in their order."""

    folder: Path
    waiting: Iterator[Path]
    got: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def take(self, batch: BatchProgress) -> None:
        """Note a batch of input."""
        if batch.rows_in:
            self.got.release()

    def seconds(self, files: int) -> float:
        """From a file's arrival to the end of its batch, for one file after the other."""
        began = time.perf_counter()
        for _ in range(files):
            file = next(self.waiting)
            file.rename(self.folder / file.name)
            if not self.got.acquire(timeout=PATIENCE_S):
                raise TimeoutError("a batch did not end")
        return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class _Backfills:
    """A process that backfills while the file `flag` is there."""

    process: subprocess.Popen[str]
    flag: Path

    def beside(self, work: Callable[[], float]) -> tuple[float, int]:
        """What `work` returns while backfills run, and how many were begun."""
        self.flag.touch()
        self._say("go")
        result = work()
        self.flag.unlink()
        return result, int(self._heard())

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _heard(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process that backfills has ended")
        return line


@contextmanager
def _backfills(source: Path, home: Path, flag: Path, nice: int) -> Iterator[_Backfills]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.recorded", str(source), str(home), str(flag)]
    pipe, env = subprocess.PIPE, {**os.environ, NICE: str(nice)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            yield _Backfills(process, flag)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE_S)


def _beside(bench: Bench, nice: int) -> Figure:
    """The backfills have the priority that the command gives them, or another one."""
    bench.say("a stream while a backfill runs")
    rounds = bench.warm_up + bench.pairs
    files = HISTORY + 2 * GROUP * rounds
    # The files of the partition are those of an hour and a little more.
    windows = HOUR_S // WINDOW_S * (files + 1) // (HISTORY - 1)
    took: list[tuple[float, float]] = []
    begun = 0
    with bench.place() as folder:
        rows = generate(folder / "rows", rows=bench.rows // SHARE * files, files=files, users=USERS, windows=windows)
        ordered = sorted(rows.iterdir(), key=lambda file: int(file.stem.rpartition("-")[2]))
        source, home, flag = folder / "in", folder / "home", folder / "flag"
        source.mkdir()
        stream = _Stream(source, iter(ordered))
        options = RunOptions(home=Home(home), driver=bench.driver, interval=INTERVAL, on_progress=stream.take)
        with _live(source).start(options), _backfills(source, home, flag, nice) as backfills:
            stream.seconds(HISTORY)
            # The first one starts Spark.
            backfills.beside(lambda: 0.0)
            for number in range(rounds):
                alone = stream.seconds(GROUP)
                beside, more = backfills.beside(lambda: stream.seconds(GROUP))
                if number >= bench.warm_up:
                    took.append((beside, alone))
                    begun += more
    beside_s, alone_s = (statistics.median(times) for times in zip(*took, strict=True))
    rate = bench.rows // SHARE * GROUP
    return Figure(
        benchmark="a stream beside a backfill",
        what="10 s windows, time for its input while another process backfills, against none"
        + ("" if nice == DEFAULT else f"; --nice {nice}"),
        value=statistics.median(beside / alone for beside, alone in took),
        unit="x",
        target=MOST_BESIDE if nice == DEFAULT else None,
        note=f"{rate / beside_s:,.0f} against {rate / alone_s:,.0f} rows/s; {begun} backfills of an hour",
    )


def _live(source: Path) -> Pipeline:
    return _windows(source, partitions=_hours("start_time"), files=1)


def main() -> None:
    """For each line of the input: backfill the partition while the flag is there, and print how often."""
    give_way()
    pipeline, options = _live(Path(sys.argv[1])), RunOptions(home=Home(Path(sys.argv[2])))
    flag = Path(sys.argv[3])
    for _ in sys.stdin:
        begun = 0
        while not begun or flag.exists():
            begun += 1
            pipeline.backfill(PARTITION, options)
        print(begun, flush=True)


if __name__ == "__main__":
    main()
