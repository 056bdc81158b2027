"""What every benchmark gets: where to work, how much to do, and fresh places for its runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks import by_hand
from benchmarks.by_hand import Sink
from benchmarks.data import FILES, generate
from benchmarks.measure import Comparison, compare
from rs_assets import Pipeline, RunOptions
from rs_assets.common.home import Home
from rs_assets.spark.driver import SparkDriver

Query = Callable[[SparkSession, Path], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Sizes and places of one run of the benchmarks. `say` tells a person what goes on.

    `queries` are those of Nexmark that are measured; none: all.
    """

    driver: SparkDriver
    folder: Path
    rows: int
    pairs: int
    warm_up: int
    latency_rows: int
    say: Callable[[str], None]
    queries: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The folder of the generated rows."""
        return self.views(self.rows)

    def views(self, rows: int, *, files: int = FILES) -> Path:
        """The folder of as many generated rows in `files` files, made at its first use."""
        folder = self.folder / f"views-{rows}-{files}"
        if not folder.exists():
            self.say(f"generating {rows:,} rows")
            generate(folder, rows=rows, files=files)
        return folder

    @contextmanager
    def place(self) -> Iterator[Path]:
        """An empty folder that goes away."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def ours(self, pipeline: Pipeline) -> int:
        """Run `pipeline` with a fresh home; the rows in its tables."""
        with self.place() as folder:
            pipeline.run(RunOptions(home=Home(folder), driver=self.driver))
            return by_hand.rows_below(folder / "tables")

    def by_hand(self, query: Query, *, sink: Sink, source: Path) -> int:
        """Run `query` over `source` with a fresh checkpoint; the rows in its output."""
        with self.place() as folder:
            return self.driver.call(lambda spark: by_hand.run(query(spark, source), folder, sink=sink))

    def against_hand(self, make: Callable[[Path], Pipeline], query: Query, source: Path, *, sink: Sink) -> Comparison:
        """Compare the pipeline that `make` makes with `query`, both over `source`."""
        return compare(
            lambda: self.ours(make(source)),
            lambda: self.by_hand(query, sink=sink, source=source),
            pairs=self.pairs,
            warm_up=self.warm_up,
        )
