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
from benchmarks.data import generate
from rs_assets import Pipeline, RunOptions
from rs_assets.engine.home import Home
from rs_assets.engine.spark.driver import SparkDriver

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
        """The folder of the generated rows, made at its first use."""
        folder = self.folder / "views"
        if not folder.exists():
            self.say(f"generating {self.rows:,} rows")
            generate(folder, rows=self.rows)
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

    def by_hand(self, query: Query, *, sink: by_hand.Sink, source: Path | None = None) -> int:
        """Run `query` over `source`, by default the generated rows, with a fresh checkpoint; the rows in its output."""
        source = source or self.source
        with self.place() as folder:
            return self.driver.call(lambda spark: by_hand.run(query(spark, source), folder, sink=sink))
