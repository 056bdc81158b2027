"""What a batch of one file costs in a query that has seen very many files before."""

from __future__ import annotations

import queue
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from rs_assets import Pipeline, RunOptions, StreamBuilder
from rs_assets.common.home import Home

# The files that a query has seen, and the batch that Spark has gathered them in.
FEW, MANY, COMPACTED = 100, 100_000, 99
# Batches of each query, before as many for each pair of warming up.
MEASURED, WARM_UP = 30, 3
MOST = 1.1
PATIENCE_S = 60


def seen_figures(bench: Bench) -> Iterator[Figure]:
    """Both queries take a batch each in turns."""
    with bench.place() as folder, ExitStack() as stack:
        queries = {seen: Query(bench, folder / str(seen), seen, stack) for seen in (FEW, MANY)}
        took: dict[int, list[float]] = {seen: [] for seen in queries}
        warm_up = WARM_UP * bench.warm_up
        for number in range(max(MEASURED * bench.latency_rows // 60, 1) + warm_up):
            bench.say(f"queries that have seen files: batch {number}")
            for seen, query in sorted(queries.items(), reverse=bool(number % 2)):
                millis = query.batch(number)
                if number >= warm_up:
                    took[seen].append(millis)
    few, many = (statistics.median(took[seen]) for seen in (FEW, MANY))
    yield Figure(
        benchmark="files that were seen before",
        what=f"a batch of one file behind {MANY:,} files, against one behind {FEW}",
        value=many / few,
        unit="x",
        target=MOST,
        note=f"{many:.0f} ms against {few:.0f} ms; every tenth batch Spark writes its whole log again",
    )


class Query:
    """A started pipeline over a folder of whole files, of which it believes to have seen `seen`."""

    def __init__(self, bench: Bench, folder: Path, seen: int, stack: ExitStack) -> None:
        self.input = folder / "in"
        self.input.mkdir(parents=True)
        self._done: queue.Queue[None] = queue.Queue()
        home = Home(folder / "rs")
        pipeline = self._pipeline(seen)
        self._put("first")
        pipeline.run(RunOptions(home=home, driver=bench.driver))
        fabricate(home.job("bench", f"seen_{seen}") / "g0001" / "file" / "checkpoint", seen)
        options = RunOptions(
            home=home,
            driver=bench.driver,
            interval=timedelta(milliseconds=10),
            on_progress=lambda _: self._done.put(None),
        )
        stack.enter_context(pipeline.start(options))

    def batch(self, number: int) -> float:
        """Milliseconds from a new file to the end of its batch."""
        began = time.perf_counter()
        self._put(f"{number:06}")
        self._done.get(timeout=PATIENCE_S)
        return (time.perf_counter() - began) * 1000

    def _pipeline(self, seen: int) -> Pipeline:
        stream = StreamBuilder.data_stream("bench", f"seen_{seen}").from_file(self.input, schema="n bigint")
        return stream.to_delta(f"seen_{seen}").build()

    def _put(self, name: str) -> None:
        hidden = self.input / f".{name}"
        hidden.write_text('{"n":1}\n')
        hidden.rename(self.input / f"{name}.json")


def fabricate(checkpoint: Path, seen: int) -> None:
    """Let the checkpoint, which has committed batch 0, look as if `seen` files were read up to batch COMPACTED.

    The files themselves are gone, as where old input is cleared away.
    """
    log = checkpoint / "sources" / "file"
    version, entry = (log / "0").read_text().splitlines()[:2]
    path = entry.split('"path":"')[1].split('"')[0]
    others = (entry.replace(path, f"{path}.{number}") for number in range(seen - 1))
    (log / f"{COMPACTED}.compact").write_text("\n".join([version, entry, *others]))
    offsets, commit = (checkpoint / "offsets" / "0").read_text(), (checkpoint / "commits" / "0").read_text()
    if '"logOffset":0' not in offsets:
        raise ValueError(f"the first batch has no first offset: {offsets}")
    for number in range(1, COMPACTED + 1):
        (checkpoint / "offsets" / str(number)).write_text(offsets.replace('"logOffset":0', f'"logOffset":{number}'))
        (checkpoint / "commits" / str(number)).write_text(commit)
