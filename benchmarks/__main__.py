"""`python -m benchmarks`: measure, show, and write BENCHMARKS.md."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import click
from rich.console import Console

from benchmarks import report
from benchmarks.bench import Bench
from benchmarks.catalog import catalog_figures
from benchmarks.collectors import collector_figures
from benchmarks.databases import database_figures
from benchmarks.dimension import dimension_figures
from benchmarks.firing import firing_figures
from benchmarks.flink import flink_figures
from benchmarks.growth import file_figures, row_figures
from benchmarks.joins import join_figures
from benchmarks.kafka import kafka_figures
from benchmarks.kafka_firing import kafka_firing_figures
from benchmarks.kafka_tables import kafka_table_figures
from benchmarks.keys import key_figures
from benchmarks.languages import sql_figures
from benchmarks.latency import latency_figures
from benchmarks.logs import log_figures
from benchmarks.lookups import lookup_figures
from benchmarks.measure import Figure
from benchmarks.memory import memory_figures
from benchmarks.nexmark import nexmark_figures
from benchmarks.processors import processor_figures
from benchmarks.ranges import range_figures
from benchmarks.recorded import recorded_figures
from benchmarks.redis import redis_figures
from benchmarks.report import Measured
from benchmarks.requests import request_figures
from benchmarks.rocketmq import rocketmq_figures
from benchmarks.rules import rule_figures
from benchmarks.scale import scale_figures
from benchmarks.seen_files import seen_figures
from benchmarks.small import small_figures
from benchmarks.starts import start_figures
from benchmarks.tables import table_figures
from benchmarks.takeover import takeover_figures
from benchmarks.throughput import (
    chain_figures,
    filter_figures,
    map_figures,
    one_file_figures,
    slope_figures,
    window_figures,
)
from benchmarks.upkeep import upkeep_figures
from pipelines.nexmark.queries import QUERIES
from rs_assets.spark.driver import SparkDriver

BENCHMARKS: Mapping[str, Callable[[Bench], Iterator[Figure]]] = MappingProxyType(
    {
        "filter": filter_figures,
        "map": map_figures,
        "window": window_figures,
        "one_file": one_file_figures,
        "slope": slope_figures,
        "chain": chain_figures,
        "firing": firing_figures,
        "keys": key_figures,
        "processors": processor_figures,
        "joins": join_figures,
        "tables": table_figures,
        "lookups": lookup_figures,
        "dimension": dimension_figures,
        "ranges": range_figures,
        "rules": rule_figures,
        "logs": log_figures,
        "latency": latency_figures,
        "small": small_figures,
        "scale": scale_figures,
        "rows": row_figures,
        "files": file_figures,
        "starts": start_figures,
        "memory": memory_figures,
        "seen": seen_figures,
        "upkeep": upkeep_figures,
        "recorded": recorded_figures,
        "takeover": takeover_figures,
        "catalog": catalog_figures,
        "requests": request_figures,
        "collectors": collector_figures,
        "kafka": kafka_figures,
        "kafka_firing": kafka_firing_figures,
        "kafka_tables": kafka_table_figures,
        "redis": redis_figures,
        "rocketmq": rocketmq_figures,
        "databases": database_figures,
        "nexmark": nexmark_figures,
        "sql": sql_figures,
        "flink": flink_figures,
    }
)
RESULT = Path(__file__).parents[1] / "BENCHMARKS.md"


@click.command(help="Measure NAMES, by default everything, against plain PySpark and other systems.")
@click.option("--rows", default=2_000_000, show_default=True, help="Generated rows.")
@click.option("--pairs", default=7, show_default=True, help="Measured pairs of runs.")
@click.option("--warm-up", default=3, show_default=True, help="Pairs before that.")
@click.option("--latency-rows", default=60, show_default=True, help="Rows whose latency is measured.")
@click.option("--query", "queries", multiple=True, type=click.Choice(tuple(QUERIES)), help="Of Nexmark only these.")
@click.argument("names", nargs=-1, type=click.Choice(tuple(BENCHMARKS)))
@click.option("--output", type=click.Path(path_type=Path), help="Whose sections are written; BENCHMARKS.md, for all.")
def main(
    rows: int,
    pairs: int,
    warm_up: int,
    latency_rows: int,
    queries: tuple[str, ...],
    names: tuple[str, ...],
    output: Path | None,
) -> None:
    """See the help text above."""
    warnings.simplefilter("ignore")
    console = Console()
    measured: list[Measured] = []
    path = output if names else output or RESULT
    driver = SparkDriver.shared()
    with tempfile.TemporaryDirectory(prefix="rs-bench-") as folder, console.status("starting Spark") as status:
        bench = Bench(
            driver=driver, folder=Path(folder), rows=rows, pairs=pairs, warm_up=warm_up,
            latency_rows=latency_rows, say=status.update, queries=queries,
        )  # fmt: skip
        try:
            # The memory comes first: then no other process of ours runs beside it.
            order = sorted(names or BENCHMARKS, key=lambda name: name != "memory")
            for name in order:
                measured.append(_measured(name, bench, console))
                # A run that is ended later keeps what it has measured.
                if path is not None:
                    report.write(path, measured, order=tuple(BENCHMARKS))
        finally:
            driver.stop()
    figures = [figure for each in measured for figure in each.figures]
    console.print(report.as_table(figures))
    for line in report.own_tables(figures):
        console.print(line, markup=False, soft_wrap=True)
    if path is not None:
        console.print(f"Written: {path}")


def _measured(name: str, bench: Bench, console: Console) -> Measured:
    """Measure one benchmark, and show its figures as they come."""
    load_before, figures = report.load(), list[Figure]()
    for figure in BENCHMARKS[name](bench):
        figures.append(figure)
        console.print(f"{figure.benchmark}, {figure.what}: {figure.value:.2f} {figure.unit}")
    told = report.conditions(rows=bench.rows, pairs=bench.pairs, load_before=load_before)
    return Measured(name=name, figures=tuple(figures), told=told)


if __name__ == "__main__":
    main()
