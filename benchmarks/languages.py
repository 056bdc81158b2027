"""What an event costs in each of Nexmark's queries in SQL, beside the fluent form of it, over the same files.

As in `nexmark.py`: processor time of all processes, and the slope between a part of the events and all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Comparison, Figure, Run, compare
from benchmarks.nexmark import MOST_PAIRS, Measured, sizes, slope
from pipelines.nexmark.in_sql import QUERIES, nexmark_in_sql
from rs_assets import Pipeline

NAME = "Nexmark in SQL"
# As the tables of `pipelines/nexmark/sql/tables.sql` have it.
FILES_PER_BATCH = 1
MOST = 1.05


def sql_figures(bench: Bench) -> Iterator[Figure]:
    """A figure for each query that there is in SQL."""
    for query in QUERIES:
        if not bench.queries or query in bench.queries:
            bench.say(f"{NAME}: {query}")
            yield _figure(bench, query)


def _figure(bench: Bench, query: str) -> Figure:
    taken: list[Comparison] = []
    both = sizes(bench, query, files_per_batch=FILES_PER_BATCH)
    # Both are warm when the larger one is run, which comes last.
    for measured, warm_up in zip(reversed(both), (min(bench.warm_up, 1), 0), strict=True):
        sql = nexmark_in_sql(query, folder=measured.folder)
        pairs = min(bench.pairs, MOST_PAIRS)
        taken.append(compare(_reading(measured, sql), _reading(measured), pairs=pairs, warm_up=warm_up))
    more = both[0].events - both[1].events
    one, two = slope(taken[1].ours, taken[0].ours, more), slope(taken[1].other, taken[0].other, more)
    # On a busy machine, or with few events, a larger run may take less than a smaller one.
    measurable = min(one, two) > 0
    what = "processor time of an event" if measurable else "a run, as an event costs less than the noise"
    return Figure(
        benchmark=NAME,
        what=f"{query}: {what}, against the fluent form",
        value=one / two if measurable else taken[1].ratio,
        unit="x",
        target=MOST if measurable else None,
        note=f"{one:.1f} µs against {two:.1f} µs; in all {taken[1].note}",
    )


def _reading(measured: Measured, pipeline: Pipeline | None = None) -> Run:
    """A run of `pipeline`, or of the fluent form; equal is what was read, as tests compare the rows."""

    def reading() -> int:
        if pipeline is None:
            measured.ours()
        else:
            measured.run(pipeline)
        return measured.events

    return reading
