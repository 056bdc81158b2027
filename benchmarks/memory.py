"""The memory of a pipeline's whole process tree, measured in a tree of its own.

Run as a module with a source folder, a home and a profile it is that tree: it runs the windows over them.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import psutil

from benchmarks.bench import Bench
from benchmarks.data import generate
from benchmarks.measure import Figure

HEAP = "512m"
# SparkSettings(lean=True), and without it.
LEAN, NORMAL = "lean", "normal"
# Of 10^6 bytes; and with a window of a million keys.
MOST_MB: Mapping[str, float] = MappingProxyType({LEAN: 700, NORMAL: 800})
MOST_OF_A_MILLION_MB = 1000
# Of the users of a window, so many for each row: of two million rows chance picks a million of them.
USERS_A_ROW = 0.7
SAMPLE_S = 0.1


def memory_figures(bench: Bench) -> Iterator[Figure]:
    """The greatest sum, over all processes, while the windows run on a heap of HEAP."""
    for profile, target in MOST_MB.items():
        yield _figure(bench, bench.source, "10 s windows", profile, target)
    with bench.place() as folder:
        source = generate(folder / "rows", rows=bench.rows, users=max(int(bench.rows * USERS_A_ROW), 1), windows=1)
        for profile in MOST_MB:
            yield _figure(bench, source, "a window of a million keys", profile, MOST_OF_A_MILLION_MB)


def _figure(bench: Bench, source: Path, what: str, profile: str, target: float) -> Figure:
    bench.say(f"memory: {what} with a heap of {HEAP}, {profile}")
    with bench.place() as folder:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", str(source), str(folder), profile]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        peak, parts = _peak(child)
        if child.wait() != 0:
            raise RuntimeError(f"the measured process ended with {child.returncode}")
    shown = ", ".join(f"{name} {mb:.0f}" for name, mb in sorted(parts.items(), key=lambda p: -p[1]))
    return Figure(
        benchmark="memory", what=f"{what}, heap of {HEAP}, {profile} settings, all processes",
        value=peak, unit="MB",
        target=target, note=shown,
    )  # fmt: skip


def _peak(child: subprocess.Popen[str]) -> tuple[float, dict[str, float]]:
    """The greatest sum of all processes in MB, and what each kind of process had then."""
    best, parts = 0.0, dict[str, float]()
    tick = threading.Event()
    while child.poll() is None:
        now: dict[str, float] = {}
        for process in _tree(child.pid):
            try:
                now[process.name()] = now.get(process.name(), 0.0) + _resident_mb(process.pid)
            except (psutil.Error, FileNotFoundError, ProcessLookupError):
                continue
        if sum(now.values()) > best:
            best, parts = sum(now.values()), now
        tick.wait(SAMPLE_S)
    return best, parts


def _tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *(child for child in top.children(recursive=True) if not _forked_java(child))]
    except psutil.NoSuchProcess:
        return []


def _forked_java(process: psutil.Process) -> bool:
    """Whether it is a Java about to start another program: until then all of its memory is its parent's."""
    try:
        parent = process.parent()
        return parent is not None and Path(process.exe()).name == "java" and process.exe() == parent.exe()
    except psutil.Error:
        return True


def _resident_mb(pid: int) -> float:
    """Memory in use, where pages that processes share count once (by parts); without Linux's word on it, resident."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return float(psutil.Process(pid).memory_info().rss / 1e6)
    line = next((line for line in rollup.read_text().splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    """Run the windows, as the process that is measured."""
    from benchmarks.pipelines_under_test import window_pipeline
    from rs_assets import RunOptions
    from rs_assets.common.home import Home
    from rs_assets.spark.driver import SparkDriver
    from rs_assets.spark.settings import SparkSettings

    driver = SparkDriver(SparkSettings(memory=HEAP, lean=sys.argv[3] == LEAN))
    try:
        window_pipeline(Path(sys.argv[1])).run(RunOptions(home=Home(Path(sys.argv[2])), driver=driver))
    finally:
        driver.stop()


if __name__ == "__main__":
    main()
