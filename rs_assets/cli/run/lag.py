"""The command `lag`: how much input is unread, and when it will have been read."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME_OR_NONE, SECONDS, chosen, guarded
from rs_assets.errors import ConfigurationError


@click.command()
@NAME_OR_NONE
@click.option(
    "--over",
    default=5.0,
    show_default=True,
    type=SECONDS,
    help="Seconds between two looks at the sources; 0 for one.",
)
@click.option("--within", type=SECONDS, help="Fail unless all input will have been read in so many seconds.")
@MODULES
@AS_JSON
@guarded
def lag(name: str | None, modules: tuple[str, ...], *, over: float, within: float | None, as_json: bool) -> None:
    """Show how much input is unread, how fast it is read and comes, and when the pipeline will have caught up."""
    from rs_assets.runtime.run.lag import lines_of

    pipeline = chosen(modules, name)
    found = pipeline.lag(over=timedelta(seconds=over))
    if not found:
        raise ConfigurationError(
            f"{pipeline.name} has no source whose unread input can be counted: sources that end and folders of whole"
            " files are left out",
            remedy="rs-assets status shows its batches",
        )
    if as_json:
        click.echo(json.dumps([each.as_dict() for each in found], default=str))
    for line in () if as_json else lines_of(found):
        click.echo(line)
    if within is not None and not all(each.reached_within(timedelta(seconds=within)) for each in found):
        sys.exit(FAILED)
