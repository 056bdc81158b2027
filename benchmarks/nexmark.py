"""What an event costs in each of Nexmark's queries, beside the same query by hand, over the same files.

Each way runs over all events and over a quarter of them: an event costs what the others take more, so that starting a
query counts for nothing. What is compared is processor time, of all processes: microseconds for an event are seconds
for a million of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.bench import Bench
from benchmarks.measure import Comparison, Figure, Run, Taken, compare, slope_us, slopes_us, timed
from benchmarks.nexmark_by_hand import BY_HAND, ByHand
from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.queries import QUERIES, nexmark
from pipelines.nexmark.schemas import SCHEMAS, Kind
from pipelines.nexmark.sources import Files
from rs_assets import Pipeline, RunOptions
from rs_assets.common.home import Home
from rs_assets.connectors.delta.table import open_table
from rs_assets.runtime.report import BatchProgress

NAME = "Nexmark"
# Of the rows that the other benchmarks read: events are larger, and there are many queries.
SHARE, QUARTER = 10, 4
# Rows are read in four batches.
FILES, FILES_PER_BATCH = 8, 2
MOST_PAIRS = 2
MOST_AN_EVENT = 1.1


@dataclass(slots=True)
class State:
    """The most that a run kept, by the queries of its pipeline."""

    kept: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows, of all queries."""
        return sum(rows for rows, _ in self.kept.values())

    @property
    def size(self) -> int:
        """Bytes of memory, of all queries, as Spark reports them."""
        return sum(size for _, size in self.kept.values())

    def take(self, batch: BatchProgress) -> None:
        """Look at what a query kept behind a batch."""
        rows, size = self.kept.get(batch.query, (0, 0))
        self.kept[batch.query] = (max(rows, batch.state_rows), max(size, batch.state_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One query over some events; `finish`: the last windows are let fire, too."""

    bench: Bench
    query: str
    events: int
    files_per_batch: int = FILES_PER_BATCH
    finish: bool = False
    state: State = field(default_factory=State)

    @property
    def folder(self) -> Path:
        """The events, made at their first use."""
        folder = self.bench.folder / f"nexmark-{self.events}"
        return folder if folder.exists() else write(folder, Settings(events=self.events, files=FILES))

    def ours(self) -> int:
        """Run our pipeline with a fresh home; the rows in its table."""
        return self.run(nexmark(self.query, Files(folder=self.folder, files_per_batch=self.files_per_batch)))

    def run(self, pipeline: Pipeline) -> int:
        """Run a pipeline of the query with a fresh home; the rows in its table."""
        with self.bench.place() as place:
            home = Home(place)
            options = RunOptions(home=home, driver=self.bench.driver, on_progress=self.state.take)
            pipeline.run(options, finish=self.finish)
            table = open_table(home.table(pipeline.topology.namespace, self.query))
            return table.count() if table is not None else 0

    def by_hand(self, query: ByHand) -> int:
        """Run the query by hand; the rows in its output."""
        folder = self.folder

        def run(spark: SparkSession) -> int:
            numbers = count()

            def read(kind: Kind) -> DataFrame:
                stream = spark.readStream.schema(SCHEMAS[kind]).option("maxFilesPerTrigger", FILES_PER_BATCH)
                return stream.name(f"{kind}_{next(numbers)}").json(str(folder / kind))

            return query.run(read, place)

        with self.bench.place() as place:
            return self.bench.driver.call(run)


def nexmark_figures(bench: Bench) -> Iterator[Figure]:
    """A figure for each query."""
    for query in QUERIES:
        if not bench.queries or query in bench.queries:
            bench.say(f"Nexmark {query}")
            yield _against_hand(bench, query, BY_HAND[query]) if query in BY_HAND else _alone(bench, query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """What an event costs two ways, in microseconds of processor time; `large` and `taken` are of all events."""

    ours: float
    other: float
    large: Measured
    taken: Comparison

    def figure(self, benchmark: str, *, against: str, target: float, note: str = "") -> Figure:
        """The ratio of the two."""
        # On a busy machine, or with few events, a larger run may take less than a smaller one.
        measurable = min(self.ours, self.other) > 0
        what = "processor time of an event" if measurable else "a run, as an event costs less than the noise"
        costs = f"{self.ours:.1f} µs against {self.other:.1f} µs"
        return Figure(
            benchmark=benchmark,
            what=f"{self.large.query}: {what}, against {against}",
            value=self.ours / self.other if measurable else self.taken.ratio,
            unit="x",
            target=target if measurable else None,
            note="; ".join(filter(None, (costs, note, f"in all {self.taken.note}"))),
        )


def slopes(both: tuple[Measured, Measured], runs: Callable[[Measured], tuple[Run, Run]]) -> Slopes:
    """Compare two runs over all events and over some of them."""
    large, small = both
    bench, taken = large.bench, list[Comparison]()
    # Both are warm when the larger one is run, which comes last.
    for measured, warm_up in ((small, min(bench.warm_up, 1)), (large, 0)):
        taken.append(compare(*runs(measured), pairs=min(bench.pairs, MOST_PAIRS), warm_up=warm_up))
    few, many = taken
    ours, other = slopes_us(many, few, large.events - small.events)
    return Slopes(ours=ours, other=other, large=large, taken=many)


def sizes(bench: Bench, query: str, *, files_per_batch: int = FILES_PER_BATCH) -> tuple[Measured, Measured]:
    """The query over all events, and over a part of them."""
    events = max(bench.rows // SHARE, FILES * QUARTER)
    all_of_them, some = (
        Measured(bench=bench, query=query, events=n, files_per_batch=files_per_batch)
        for n in (events, events // QUARTER)
    )
    return all_of_them, some


def _against_hand(bench: Bench, query: str, by_hand: ByHand) -> Figure:
    def runs(measured: Measured) -> tuple[Run, Run]:
        ours, other = (_run(measured, by_hand, which) for which in (measured.ours, partial(measured.by_hand, by_hand)))
        return ours, other

    found = slopes(sizes(bench, query), runs)
    against = f"PySpark by hand, {'merging into Delta' if by_hand.keys else 'Parquet'}"
    told = _told(found.large, found.taken.ours)
    return found.figure(NAME, against=against, target=MOST_AN_EVENT, note=told)


def _run(measured: Measured, by_hand: ByHand, run: Run) -> Run:
    """Where rows of the last windows are lacking, equal is what was read."""

    def reading() -> int:
        run()
        return measured.events

    return reading if by_hand.later else run


def _alone(bench: Bench, query: str) -> Figure:
    """A query that nobody would write by hand in one query of Spark's, or whose rows depend on the clock."""
    taken: list[tuple[Taken, ...]] = []
    large, small = sizes(bench, query)
    for measured, warm_up in ((small, min(bench.warm_up, 1)), (large, 0)):
        for _ in range(warm_up):
            measured.ours()
        taken.append(tuple(timed(measured.ours)[0] for _ in range(min(bench.pairs, MOST_PAIRS))))
    cost = slope_us(taken[1], taken[0], large.events - small.events)
    note = f"{_told(large, taken[1])}; in all {statistics.median(t.seconds for t in taken[1]):.2f} s"
    return Figure(benchmark=NAME, what=f"{query}: processor time of an event", value=cost, unit="µs", note=note)


def _told(measured: Measured, taken: tuple[Taken, ...]) -> str:
    rate = measured.events / min(run.seconds for run in taken)
    state = measured.state
    return f"{rate:,.0f} events/s, at most {state.rows:,} rows of state in {state.size / 1e6:.1f} MB"
