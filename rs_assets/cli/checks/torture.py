"""The command `torture`: a pipeline over the same records in several ways."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.cli.checks.records import records_in
from rs_assets.errors import ConfigurationError


@click.command()
@NAME_OR_NONE
@click.option("--rows", "files", multiple=True, metavar="[SOURCE=]FILE", help="Records as lines of JSON, by source.")
@click.option(
    "--records", default=200, show_default=True, type=click.IntRange(min=1), help="Without --rows: the first so many."
)
@click.option("--batches", default=4, show_default=True, type=click.IntRange(min=1), help="In how many batches.")
@click.option("--seed", default=1, show_default=True, help="Chooses other batches and orders.")
@click.option("--ignore", multiple=True, default=("fire_time",), show_default=True, help="Fields not to compare.")
@click.option("--strict", is_flag=True, help="Fail on each difference, not only on those that are always wrong.")
@MODULES
@AS_JSON
@guarded
def torture(
    name: str | None,
    modules: tuple[str, ...],
    *,
    files: tuple[str, ...],
    records: int,
    strict: bool,
    as_json: bool,
    **chosen_by: Any,
) -> None:
    """Run a pipeline over the same records again, restarted, in other batches and orders; show what differs."""
    from rs_assets.testing.pipeline import check_pipeline, sample

    pipeline = chosen(modules, name)
    rows = _rows(files, [source.name for source in pipeline.topology.origins]) or sample(pipeline, records)
    found = check_pipeline(pipeline, rows, **chosen_by)
    click.echo(json.dumps(asdict(found), default=str) if as_json else str(found))
    if found.wrong or (strict and found.findings):
        sys.exit(FAILED)


def _rows(files: Sequence[str], sources: Sequence[str]) -> Mapping[str, list[Mapping[str, Any]]]:
    """The records of each source; ConfigurationError for a file that has none, or does not name its source."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for text in files:
        named, sign, rest = text.partition("=")
        # A path may have the sign, too, such as one of partitions: day=2026-01-05/rows.jsonl.
        source, path = (named, rest) if sign and (named in sources or not Path(text).exists()) else ("", text)
        if not source and len(sources) != 1:
            raise ConfigurationError(
                f"--rows must name the source of {path}", remedy=f"write --rows {sources[0]}={path}"
            )
        rows.setdefault(source or sources[0], []).extend(records_in(Path(path)))
    return rows
