"""The rows of a pipeline's tables, on a terminal or for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from rs_assets.cli.base import AS_JSON, MODULES, guarded
from rs_assets.errors import ConfigurationError
from rs_assets.orchestration.discovery import find_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rs_assets.pipeline.stream.pipeline import Pipeline


@click.command()
@click.argument("table")
@click.option("--rows", default=10, show_default=True, type=click.IntRange(min=1), help="How many rows at most.")
@MODULES
@AS_JSON
@guarded
def show(table: str, rows: int, modules: tuple[str, ...], as_json: bool) -> None:
    """Show some rows of a table that a pipeline writes, by its name or that of its step; whatever its size."""
    from rich.console import Console

    from rs_assets.engine.sink.console import as_table
    from rs_assets.engine.sink.delta_table import open_table

    path = _path(table, find_pipelines(modules))
    opened = open_table(path)
    if opened is None:
        raise ConfigurationError(
            f"the table {table!r} is not there yet", remedy="run its pipeline: rs-assets run NAME", path=path
        )
    count = opened.count()
    first = opened.to_pyarrow_dataset().head(rows)
    if as_json:
        click.echo(json.dumps({"path": path, "rows": count, "first": first.to_pylist()}, default=str))
        return
    Console().print(as_table(first, title=f"{table} ({count:,} rows)", max_rows=rows))
    click.echo(path)


def _path(table: str, pipelines: Sequence[Pipeline]) -> str:
    """Where the table lies that is called so, or that the step of this name writes."""
    known = dict(_tables(pipelines))
    if table not in known:
        raise ConfigurationError(f"there is no table {table!r}", remedy=f"use one of: {', '.join(known) or 'none'}")
    return known[table]


def _tables(pipelines: Sequence[Pipeline]) -> Iterator[tuple[str, str]]:
    from rs_assets.engine.home import Home
    from rs_assets.pipeline.topology.sink import DeltaSink

    for pipeline in pipelines:
        for sink in pipeline.topology.sinks:
            if isinstance(sink, DeltaSink):
                path = Home.default().table(pipeline.topology.namespace, sink.table)
                yield from ((name, path) for name in dict.fromkeys((sink.table, sink.name)))
