"""A large dimension: what a version of it takes, and what it costs to look a row up in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench
from benchmarks.data import SEED
from benchmarks.measure import MICROSECONDS, Figure, timed
from rs_assets import Dimension, Pipeline, RunOptions, StreamBuilder
from rs_assets.common.home import Home

NAME = "a large dimension"
# Ten million rows, where the others read two million.
SHARE = 5
KEY_BYTES, LETTERS = 8, 20
FILES = 8
ALL_ROWS, MOST_MB, LEAST_LOOKUPS = 10_000_000, 330.0, 700_000


def dimension_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    rows = bench.rows * SHARE
    with bench.place() as folder:
        bench.say(f"{NAME}: {rows:,} rows")
        keys = _write_table(folder / "table.parquet", rows)
        lines = Lines(folder / "in", keys)
        table = Dimension.from_file(folder / "table.parquet", format="parquet", schema="id string, label string")
        looked = Watched(bench, folder, "looked", lambda rows: rows.dim_join(table, on="id", how="left"))
        plain = Watched(bench, folder, "plain", lambda rows: rows.with_fields(label="id"))
        lines.write(FILES)
        began = time.perf_counter()
        looked.run()
        loaded = time.perf_counter() - began
        plain.run()
        # What a run costs whatever it reads, its Python processes among it, is no part of a row's cost.
        taken = []
        for count in (FILES, bench.rows):
            bench.say(f"{NAME}: looking {count:,} rows up")
            lines.write(count)
            taken.append(looked.run() - plain.run())
        cost = (taken[1] - taken[0]) / bench.rows * MICROSECONDS
        size = sum(path.stat().st_size for path in looked.home.root.rglob("dimensions/**/*") if path.is_file()) / 1e6
    yield Figure(
        benchmark=NAME, what=f"{rows:,} keys of 16 hexadecimal digits, values of {LETTERS} letters: its file",
        value=size, unit="MB", target=MOST_MB * rows / ALL_ROWS, note=f"loaded by a first run of {loaded:.0f} s",
    )  # fmt: skip
    yield Figure(
        benchmark=NAME, what="processor time of looking a row up, with all that Spark and Arrow take", value=cost,
        unit="µs", target=MICROSECONDS / LEAST_LOOKUPS,
        note=f"{MICROSECONDS / max(cost, 0.01):,.0f} rows/s on one core",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watched:
    """A pipeline over the lines that keeps none, in a home that stays."""

    bench: Bench
    folder: Path
    job: str
    step: Callable[[Any], Any]

    @property
    def home(self) -> Home:
        """Where its dimension lies."""
        return Home(self.folder / self.job)

    def run(self) -> float:
        """Read what is new; processor seconds."""
        pipeline, options = self._pipeline(), RunOptions(home=self.home, driver=self.bench.driver)
        return timed(lambda: pipeline.run(options, finish=False).rows_in)[0].cpu_s

    def _pipeline(self) -> Pipeline:
        start = StreamBuilder.data_stream("bench", self.job)
        lines = start.from_file(str(self.folder / "in"), schema="id string, ms bigint")
        made: Pipeline = self.step(lines).filter("label IS NULL").to_delta(self.job).build()
        return made


def _write_table(path: Path, rows: int) -> pa.StringArray:
    """A table of random keys and labels; its keys."""
    pick = np.random.default_rng(SEED)
    keys = _texts(np.frombuffer(pick.bytes(KEY_BYTES * rows).hex().encode(), dtype=np.uint8), rows)
    labels = _texts(pick.integers(ord("a"), ord("z") + 1, LETTERS * rows, dtype=np.uint8), rows)
    pq.write_table(pa.table({"id": keys, "label": labels}), path)
    return keys


def _texts(letters: np.ndarray, rows: int) -> pa.StringArray:
    """As many texts of equal length."""
    length = letters.size // rows
    offsets = np.arange(0, letters.size + 1, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


@dataclass(frozen=True, slots=True)
class Lines:
    """A folder of lines that find a row each."""

    folder: Path
    keys: pa.StringArray

    def write(self, rows: int) -> None:
        """Add files with as many lines."""
        self.folder.mkdir(exist_ok=True)
        pick = np.random.default_rng(SEED + rows)
        for number in range(FILES):
            chosen = self.keys.take(pa.array(pick.integers(0, len(self.keys), rows // FILES))).to_pylist()
            text = "".join(f'{{"id":"{key}","ms":{number}}}\n' for number, key in enumerate(chosen))
            (self.folder / f"{len(list(self.folder.iterdir()))}.json").write_text(text, encoding="ascii")
