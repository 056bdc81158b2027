"""Whether anything grows in a process that runs for long: a stream of thousands of batches, or thousands of starts.

A stage of the work is a batch of the stream with one more record, or a run that reads one more. Memory is what is in
use after a collection; threads and files are counted, of this process and of its JVM.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.spark.driver import SparkDriver
from tests.torture.history import Finding
from tests.torture.model import all_read
from tests.torture.site import SMALL, Site

PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.02
# The first samples are those of compilers and caches that fill; growth is that of the rest.
WARM: Final = 0.4
BARS: Final = "▁▂▃▄▅▆▇█"
# Growth in 1,000 stages that is a finding. Rows of the catalog are on the disk, where compaction merges them.
MOST: Final[dict[str, float]] = {
    "python_mb": 4.0,
    "heap_mb": 3.0,
    "metaspace_mb": 2.0,
    "python_threads": 0.5,
    "java_threads": 0.5,
    "python_files": 0.5,
    "java_files": 0.5,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What is in use after so many stages, and what a stage took since the sample before."""

    stages: int
    stage_ms: float
    python_mb: float
    heap_mb: float
    metaspace_mb: float
    java_mb: float
    python_threads: int
    java_threads: int
    python_files: int
    java_files: int
    checkpoint_files: int
    catalog_files: int
    home_mb: float


@dataclass(frozen=True, slots=True)
class Endured:
    """All samples of a run, in their order."""

    samples: tuple[Sample, ...]

    def growth(self, field: str) -> float:
        """By how much it grows in 1,000 stages, by the line through all samples after the first ones."""
        kept = self.samples[int(len(self.samples) * WARM) :]
        return statistics.linear_regression(
            [sample.stages / 1000 for sample in kept], [float(getattr(sample, field)) for sample in kept]
        ).slope

    @property
    def findings(self) -> list[str]:
        """What grows by more than it may."""
        return [
            f"{name} grows by {growth:.1f} in 1,000 stages, {most:g} at most"
            for name, most in MOST.items()
            if (growth := self.growth(name)) > most
        ]

    def table(self) -> Iterator[str]:
        """A line for each figure: first and last value, growth, and its plot over all samples."""
        yield "| what | first | last | in 1,000 stages | over time |"
        yield "|---|---:|---:|---:|---|"
        for field in Sample.__dataclass_fields__:
            values = [float(getattr(sample, field)) for sample in self.samples]
            growth = "" if field == "stages" else f"{self.growth(field):+.2f}"
            yield f"| {field} | {values[0]:,.1f} | {values[-1]:,.1f} | {growth} | {plot(values)} |"


def plot(values: Sequence[float]) -> str:
    """A bar for each value, from the least to the greatest."""
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    return "".join(BARS[min(int((value - low) / width * len(BARS)), len(BARS) - 1)] for value in values)


def endurance(folder: Path, kind: str, stages: int, samples: int) -> int:
    """Do so many stages, show what has grown, and compare the outputs with the model; how much is wrong."""
    driver = SparkDriver.shared(SMALL)
    site = Site(folder / f"endure-{kind}", driver, tail=True)
    site.root.mkdir()
    site.make()
    seen = _Seen(site, driver, folder / f"endure-{kind}.jsonl")
    KINDS[kind](site, stages, max(stages // samples, 1), seen.sample)
    wrong = Endured(tuple(seen.samples))
    site.pipeline().run(site.options, finish=True)
    print("\n".join(wrong.table()), flush=True)
    findings = [*wrong.findings, *_differences(site)]
    print("\n".join(findings) or f"{stages} stages: nothing grows, and the outputs are the model's", flush=True)
    return len(findings)


def _stream(site: Site, stages: int, every: int, sample: Callable[[int], None]) -> None:
    with site.pipeline().start(site.options) as running:
        for stage in range(1, stages + 1):
            before = _committed(running)
            site.grow("a", 1)
            _wait(running, before)
            if stage % every == 0:
                sample(stage)


def _starts(site: Site, stages: int, every: int, sample: Callable[[int], None]) -> None:
    for stage in range(1, stages + 1):
        site.grow("a", 1)
        site.pipeline().run(site.options, finish=False)
        if stage % every == 0:
            sample(stage)


KINDS: Final[dict[str, Callable[[Site, int, int, Callable[[int], None]], None]]] = {
    "stream": _stream,
    "starts": _starts,
}


def _committed(running: RunningPipeline) -> list[int]:
    return [running.session.log(plan).last_committed() for plan in running.session.plans]


def _wait(running: RunningPipeline, before: list[int]) -> None:
    """Until each query has committed one more batch."""
    deadline = time.monotonic() + PATIENCE_S
    while any(now <= then for now, then in zip(_committed(running), before, strict=True)):
        if not running.active or time.monotonic() > deadline:
            raise Finding(f"no batch after {before} within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)


def _differences(site: Site) -> list[str]:
    """Outputs that are not what the model says of all that was read."""
    held, must = site.held(), all_read(site.input.of("a"))
    return [
        f"{name}: {len(held[name])} rows, {len(must[name])} by the model" for name in must if held[name] != must[name]
    ]


@dataclass(slots=True)
class _Seen:
    """The samples so far, kept in a file as they come."""

    site: Site
    driver: SparkDriver
    file: Path
    samples: list[Sample] = None  # type: ignore[assignment]
    _at: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        self.samples, self._at = [], (0, time.monotonic())

    def sample(self, stages: int) -> None:
        """Take one, after a collection in both processes."""
        done, since = self._at
        stage_ms = (time.monotonic() - since) * 1000 / max(stages - done, 1)
        gc.collect()
        taken = Sample(
            stages=stages, stage_ms=stage_ms, **_python(), **self.driver.call(_java), **_disk(self.site.home)
        )
        self.samples.append(taken)
        with self.file.open("a") as file:
            file.write(f"{json.dumps(asdict(taken))}\n")
        print(json.dumps(asdict(taken)), flush=True)
        self._at = (stages, time.monotonic())


def _python() -> dict[str, Any]:
    """Of this process."""
    return {
        "python_mb": _resident_mb("self"),
        "python_threads": len(list(Path("/proc/self/task").iterdir())),
        "python_files": len(list(Path("/proc/self/fd").iterdir())),
    }


def _java(spark: SparkSession) -> dict[str, Any]:
    """Of the JVM; its heap and metaspace after a collection."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory
    pools = {pool.getName(): pool for pool in beans.getMemoryPoolMXBeans()}
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    return {
        "heap_mb": beans.getMemoryMXBean().getHeapMemoryUsage().getUsed() / 1e6,
        "metaspace_mb": pools["Metaspace"].getUsage().getUsed() / 1e6,
        "java_mb": _resident_mb(pid),
        "java_threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "java_files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


def _resident_mb(pid: str) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


def _disk(home: Path) -> dict[str, Any]:
    """Files of the home: those of checkpoints, those of the catalog, and the size of all."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return {
        "checkpoint_files": sum("checkpoint" in path.parts for path in files),
        "catalog_files": sum("catalog" in path.parts for path in files),
        "home_mb": sum(_size(path) for path in files) / 1e6,
    }


def _size(path: Path) -> int:
    """0 of a file that a query has removed meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
