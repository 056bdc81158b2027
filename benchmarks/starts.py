"""What a run costs in a process of its own: the first one, one without new input, one with a line more; and imports."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from rs_assets.cli.setup.rehearsal import archive_classes
from rs_assets.common.project import project_folder

COMMAND = (sys.executable, "-m", "rs_assets.cli.main", "run", "access_log")
IDLE_TIMES, MORE_TIMES = 5, 3
LINE = '10.0.0.1 - - [06/Jan/2026:01:21:40 +0000] "GET /f8 HTTP/1.1" 200 1 "-" "-"\n'
# What each start loads.
IMPORTS: Mapping[str, tuple[str, float | None]] = {
    "import of the definitions": ("pipelines.definitions", 2),
    "import of Dagster alone": ("dagster", None),
}


def start_figures(bench: Bench) -> Iterator[Figure]:
    """See the module; the input is the example's log of 100,000 lines, and the classes of Spark are archived."""
    bench.say(f"classes: {archive_classes()}")
    with bench.place() as folder:
        home = {**os.environ, "RS_HOME": str(folder / "rs"), "DAGSTER_HOME": str(folder / "dagster")}
        (folder / "dagster").mkdir()
        _spent((sys.executable, "-m", "pipelines.access_log_data"), home)
        yield _figure("first time", [_spent(COMMAND, home)], target=25)
        yield _figure("without new input", [_spent(COMMAND, home) for _ in range(IDLE_TIMES)], target=5)
        log, took = folder / "rs" / "input" / "access.log", []
        for _ in range(MORE_TIMES):
            with log.open("a") as file:
                file.write(LINE)
            took.append(_spent(COMMAND, home))
        yield _figure("one line more", took, target=12)
    for what, (module, target) in IMPORTS.items():
        command = (sys.executable, "-c", f"import {module}")
        yield _figure(what, [_spent(command, dict(os.environ)) for _ in range(IDLE_TIMES)], target=target)


def _spent(command: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """The seconds on the clock, and the processor seconds of the process and those that it started."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, cwd=Path(project_folder()), check=True, capture_output=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return ended - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figure(what: str, took: list[tuple[float, float]], *, target: float | None) -> Figure:
    clock, processor = (statistics.median(each) for each in zip(*took, strict=True))
    return Figure(
        benchmark="starts", what=what, value=clock, unit="s", target=target,
        note=f"medians of {len(took)}; processor time {processor:.1f} s",
    )  # fmt: skip
