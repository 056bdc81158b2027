"""The command `capture`: batches of production as tests of the project."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.errors import ConfigurationError

BATCHES = re.compile(r"(\d+)(?:\.\.(\d+))?")


@click.command()
@NAME_OR_NONE
@click.option("--batches", metavar="FIRST[..LAST]", help="Default: the batch that failed, else the newest one.")
@click.option("--partition", metavar="KEY", help="Instead of --batches: those of a closed partition.")
@click.option("--sink", help="An output of the query that is meant, if there are several queries.")
@click.option(
    "--into", default="tests/captured", show_default=True, type=click.Path(), help="Where the folder is made."
)
@click.option("--name", "folder", metavar="NAME", help="The folder and the test; default: the job and the batches.")
@click.option("--mask", default="", metavar="FIELDS", help="Fields whose texts become digests, with commas.")
@click.option(
    "--expect",
    default="table",
    show_default=True,
    type=click.Choice(["table", "replay"]),
    help="The rows that were written, or those that the current code gives.",
)
@click.option("--max-records", default=100_000, show_default=True, type=click.IntRange(min=1), help="Refuse more.")
@MODULES
@AS_JSON
@guarded
def capture(
    name: str | None,
    modules: tuple[str, ...],
    *,
    batches: str | None,
    folder: str | None,
    mask: str,
    expect: str,
    as_json: bool,
    **chosen_by: Any,
) -> None:
    """Write the records of batches into the tests of this project, with a test that replays them."""
    pipeline = chosen(modules, name)
    fields = tuple(field.strip() for field in mask.split(",") if field.strip())
    replayed = expect == "replay" or bool(fields)
    found = pipeline.capture(batches=batches_of(batches), name=folder, mask=fields, expect=not replayed, **chosen_by)
    if replayed and found.committed:
        from rs_assets.testing.captured import replay

        try:
            replay(pipeline, found.folder, accept=True)
        except BaseException:
            # As when the capture itself fails.
            shutil.rmtree(found.folder, ignore_errors=True)
            raise
    click.echo(json.dumps(found.as_dict()) if as_json else str(found))


def batches_of(text: str | None) -> tuple[int, int] | None:
    """The first and the last batch; ConfigurationError for another text.

    >>> batches_of("12..14"), batches_of("12"), batches_of(None)
    ((12, 14), (12, 12), None)
    """
    if text is None:
        return None
    match = BATCHES.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--batches must be FIRST or FIRST..LAST, not {text!r}", remedy="--batches 12..14")
    return int(match[1]), int(match[2] or match[1])
