"""What interrupts a stream: uploads of its batches, the loss of its machine, and a rescale of its state.

Run as a module with a folder and a home it is the stream whose driver is killed. With the folder in `FOLDER` of the
environment it has that stream as a pipeline, for the command of a standby.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count, pairwise
from pathlib import Path
from unittest.mock import patch

from deltalake import DeltaTable

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from benchmarks.upkeep import keyed, write_keys
from rs_assets import Home, Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.recovery.uploads import Uploader
from rs_assets.runtime.options import SavepointPolicy

TTL = timedelta(seconds=3)
TIMES = 3
FOLDER = "RS_BENCH_FOLDER"
COMMAND = (sys.executable, "-W", "ignore", "-m", "rs_assets.cli.main", "standby", "--module", "benchmarks.takeover")
# What the command says when it has started Spark and looks for the end of the driver.
WAITS = "waits for the end"
ROWS = 1_000
LOOK_S = 0.01
# 5,000 rows a second.
FEED_S = 0.2
PATIENCE_S = 120


def takeover_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    yield from _uploads(bench)
    yield _takeover(bench, "on the same host", elsewhere=False, target=3)
    yield _takeover(bench, f"in another home, a lease of {TTL.seconds} s", elsewhere=True, target=10)
    yield from _rescale(bench)


def _uploads(bench: Bench) -> Iterator[Figure]:
    """The uploads of a window of a million keys: the first one, and those of a batch that changes one in a hundred."""
    keys = bench.rows // 2
    bench.say(f"uploads of a state of {keys:,} keys")
    took: list[float] = []
    upload = Uploader._upload  # noqa: SLF001  what is measured

    def timed(self: Uploader, queries: tuple[str, ...]) -> None:
        began = time.perf_counter()
        upload(self, queries)
        took.append(time.perf_counter() - began)

    with bench.place() as folder, patch.object(Uploader, "_upload", timed):
        policy = SavepointPolicy(uri=str(folder / "store"), upload=True)
        options = RunOptions(home=Home(folder / "rs"), driver=bench.driver, savepoints=policy)
        pipeline = keyed(folder)
        write_keys(folder, "all.json", first=0, last=keys)
        pipeline.run(options)
        yield Figure(
            benchmark="a lost machine", what="upload of a state of a million keys, the first time",
            value=max(took), unit="s",
        )  # fmt: skip
        changed = []
        for number in range(bench.pairs):
            took.clear()
            write_keys(folder, f"some{number}.json", first=0, last=max(keys // 100, 1))
            pipeline.run(options)
            changed.append(max(took))
        yield Figure(
            benchmark="a lost machine", what="upload after 1 % of a million keys changed, the slowest of a run",
            value=statistics.median(changed), unit="s", target=0.5,
            note=f"medians of {len(changed)} runs; the sinks wait only for what the batch does not hide",
        )  # fmt: skip
        shutil.rmtree(folder / "rs")


def stream_of(folder: Path) -> Pipeline:
    """A stream with a window, over a folder of files."""
    source = StreamBuilder.data_stream("bench", "spare").from_file(folder / "in", schema="k bigint, ms bigint")
    source.to_delta(str(folder / "copy"), name="copy")
    window = source.window(TumblingWindow.of(Time.seconds(10), "ms"), name="window").group_by("k").count("n")
    return window.water_mark(Time.seconds(0)).to_data_stream().to_delta(str(folder / "windows"), name="windows").build()


def options_of(folder: Path, home: Path) -> RunOptions:
    """Uploads, and a short lease."""
    policy = SavepointPolicy(uri=str(folder / "store"), upload=True)
    return RunOptions(home=Home(home), interval=timedelta(milliseconds=100), lease_ttl=TTL, savepoints=policy)


def _takeover(bench: Bench, where: str, *, elsewhere: bool, target: float) -> Figure:
    bench.say(f"takeover by a standby {where}")
    took = [_once(bench, elsewhere=elsewhere) for _ in range(TIMES)]
    return Figure(
        benchmark="a lost machine", what=f"from SIGKILL to the first commit of `rs-assets standby` {where}",
        value=statistics.median(took), unit="s", target=target,
        note=", ".join(f"{each:.1f} s" for each in took),
    )  # fmt: skip


def _once(bench: Bench, *, elsewhere: bool) -> float:
    """Seconds from the kill of a stream to the first rows of the command, with its run in Dagster."""
    with bench.place() as folder:
        home = folder / "home"
        settings = {
            FOLDER: str(folder),
            "RS_HOME": str(folder / "other" if elsewhere else home),
            "DAGSTER_HOME": str(folder / "dagster"),
            "RS_SAVEPOINTS": str(folder / "store"),
            "RS_UPLOAD": "1",
            "RS_LEASE_SECONDS": str(TTL.seconds),
        }
        with _lost(folder, home) as lose, _process(COMMAND, settings) as command:
            assert command.stdout is not None
            if not any(WAITS in line for line in iter(command.stdout.readline, "")):
                raise ChildProcessError("the standby ended before it was ready")
            return lose()


@contextmanager
def _lost(folder: Path, home: Path) -> Iterator[Callable[[], float]]:
    """A running stream; what it gives kills it, and returns the seconds until somebody else has written rows."""
    _put(folder, 0)
    program = (sys.executable, "-W", "ignore", "-m", "benchmarks.takeover", str(folder), str(home))
    with _process(program, {}) as process:
        _await_rows(folder, ROWS)

        def lose() -> float:
            _put(folder, 1)
            _await_rows(folder, 2 * ROWS)
            _put(folder, 2)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            before, began = _rows(folder), time.perf_counter()
            if before == 3 * ROWS:
                _put(folder, 3)
            _await_rows(folder, before + 1)
            return time.perf_counter() - began

        yield lose


@contextmanager
def _process(command: Sequence[str], settings: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process whose group is killed at the end, its JVM included."""
    process = subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _rescale(bench: Bench) -> Iterator[Figure]:
    """A stream with a state of a million keys: rescaled while it runs, under load, and while it is stopped."""
    keys = bench.rows // 2
    bench.say(f"rescales of a state of {keys:,} keys")
    with bench.place() as folder:
        commits, lively = list[float](), threading.Event()
        options = RunOptions(
            home=Home(folder / "rs"), driver=bench.driver, interval=timedelta(milliseconds=100),
            on_progress=lambda _: commits.append(time.perf_counter()),
        )  # fmt: skip
        pipeline = keyed(folder)
        write_keys(folder, "all.json", first=0, last=keys)
        pipeline.run(options)
        feeder = threading.Thread(target=lambda: _feed(folder, lively, keys))
        pauses, whole = list[float](), list[float]()
        with pipeline.start(options) as running:
            feeder.start()
            for partitions in (4, 3, 4)[:TIMES]:
                _await_commits(commits, len(commits) + 3)
                began, first = time.perf_counter(), len(commits) - 1
                running.rescale(partitions)
                ended = time.perf_counter()
                whole.append(ended - began)
                _await_commits(commits, len(commits) + 1)
                # The exchange is the last thing that it does; batches before that only share the cores with it.
                pauses.append(next(b - a for a, b in pairwise(commits[first:]) if b > ended))
            lively.set()
            feeder.join()
        yield Figure(
            benchmark="a rescale", what="pause of a running stream with a state of a million keys, 5,000 rows/s",
            value=statistics.median(pauses), unit="s", target=5,
            note=", ".join(f"{pause:.1f} s of {all_in:.0f} s" for pause, all_in in zip(pauses, whole, strict=True)),
        )  # fmt: skip
        began = time.perf_counter()
        pipeline.rescale(2, options)
        yield Figure(
            benchmark="a rescale", what="of a stopped pipeline with a state of a million keys",
            value=time.perf_counter() - began, unit="s",
        )  # fmt: skip
        shutil.rmtree(folder / "rs")


def _feed(folder: Path, lively: threading.Event, keys: int) -> None:
    """Rows of keys all over the state, until the event."""
    for number in count():
        first = number * ROWS % max(keys - ROWS, 1)
        write_keys(folder, f"more{number:06}.json", first=first, last=first + ROWS)
        if lively.wait(FEED_S):
            return


def _await_commits(commits: list[float], number: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(commits) < number:
        if time.monotonic() > until:
            raise TimeoutError(f"no more than {len(commits)} batches came")
        time.sleep(LOOK_S)


def _put(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / ".new"
    hidden.write_text("".join(json.dumps({"k": n, "ms": 10_000 * number + n}) + "\n" for n in range(ROWS)))
    hidden.rename(folder / "in" / f"{number:04d}.json")


def _rows(folder: Path) -> int:
    place = str(folder / "copy")
    return DeltaTable(place).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(place) else 0


def _await_rows(folder: Path, rows: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while _rows(folder) < rows:
        if time.monotonic() > until:
            raise TimeoutError(f"no more than {_rows(folder)} rows came")
        time.sleep(LOOK_S)


def main(folder: Path, home: Path) -> None:
    """Run the stream until it is killed."""
    stream_of(folder).start(options_of(folder, home)).await_termination()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
elif FOLDER in os.environ:
    stream = stream_of(Path(os.environ[FOLDER]))
