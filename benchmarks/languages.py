"""What an event costs in each of Nexmark's queries in SQL, beside the fluent form of it, over the same files.

As in `nexmark.py`: processor time of all processes, and the slope between a part of the events and all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Figure, Run
from benchmarks.nexmark import Measured, sizes, slopes
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
    def runs(measured: Measured) -> tuple[Run, Run]:
        return _reading(measured, nexmark_in_sql(query, folder=measured.folder)), _reading(measured)

    found = slopes(sizes(bench, query, files_per_batch=FILES_PER_BATCH), runs)
    return found.figure(NAME, against="the fluent form", target=MOST)


def _reading(measured: Measured, pipeline: Pipeline | None = None) -> Run:
    """A run of `pipeline`, or of the fluent form; equal is what was read, as tests compare the rows."""

    def reading() -> int:
        if pipeline is None:
            measured.ours()
        else:
            measured.run(pipeline)
        return measured.events

    return reading
