"""The command `compact`: small files of outputs and of the catalog, joined."""

from __future__ import annotations

import click

from rs_assets.cli.base import AS_JSON, MODULES, guarded, known
from rs_assets.cli.output import emit, progress


@click.command()
@click.option("--file-mb", type=click.IntRange(min=1), help="Join files of outputs up to about so many megabytes.")
@MODULES
@AS_JSON
@guarded
def compact(modules: tuple[str, ...], *, file_mb: int | None, as_json: bool) -> None:
    """Join the small files of all outputs and of the catalog, and remove files that no recent version uses."""
    from rs_assets.common.home import Home
    from rs_assets.dagster.runs.compaction import compact_everything

    with progress("compacting", hidden=as_json):
        done = compact_everything(known(modules), Home.default(), target_mb=file_mb)
    rows = [{"table": table, **counts} for table, counts in done.items()]
    emit(rows, as_json=as_json, empty="no table yet")
