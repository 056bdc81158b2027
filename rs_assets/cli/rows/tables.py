"""The rows of a pipeline's tables, on a terminal or for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from rs_assets.cli.base import AS_JSON, MODULES, guarded, known
from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rs_assets.stream.pipeline import Pipeline


@click.command()
@click.argument("table")
@click.option("--rows", default=10, show_default=True, type=click.IntRange(min=1), help="How many rows at most.")
@MODULES
@AS_JSON
@guarded
def show(table: str, rows: int, modules: tuple[str, ...], as_json: bool) -> None:
    """Show some rows of a table that a pipeline writes, by its name or that of its step."""
    from rs_assets.connectors.console.writer import as_table, terminal
    from rs_assets.connectors.delta.rows import dataset_of
    from rs_assets.connectors.delta.table import open_table

    path = _path(table, known(modules))
    opened = open_table(path)
    if opened is None:
        raise ConfigurationError(
            f"the table {table!r} does not exist yet: no row was written into it",
            remedy="run its pipeline: rs-assets run NAME",
            path=path,
        )
    count = opened.count()
    first = dataset_of(opened, path).head(rows)
    if as_json:
        click.echo(json.dumps({"path": path, "rows": count, "first": first.to_pylist()}, default=str))
        return
    terminal().print(as_table(first, title=f"{table} ({count_of(count, 'row')})", max_rows=rows))
    click.echo(path)


def _path(table: str, pipelines: Sequence[Pipeline]) -> str:
    """The path of the table with this name or step.

    ConfigurationError if there is none, and if there are several: a namespace before the name selects one.
    """
    tables = list(_tables(pipelines))
    found = sorted({path for names, path in tables if table in names})
    if len(found) == 1:
        return found[0]
    if found:
        whole = sorted({names[-1] for names, path in tables if path in found})
        raise ConfigurationError(f"several tables are called {table!r}", remedy=f"use one of: {', '.join(whole)}")
    there = dict.fromkeys(name for names, _ in tables for name in names[:-1])
    raise ConfigurationError(f"there is no table {table!r}", remedy=f"use one of: {', '.join(there) or 'none'}")


def _tables(pipelines: Sequence[Pipeline]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The names of each table, the unique one last, and its path."""
    from rs_assets.common.home import Home
    from rs_assets.connectors.delta.nodes import DeltaSink

    for pipeline in pipelines:
        space = pipeline.topology.namespace
        for sink in pipeline.topology.sinks:
            if isinstance(sink, DeltaSink):
                path = Home.default().table(space, sink.table)
                yield (sink.table, sink.name, path, f"{space}.{sink.table}"), path
