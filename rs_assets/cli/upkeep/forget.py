"""The command `forget`: the rows of keys leave all places of a pipeline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME, chosen, guarded
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

CONSENTS = ("refuse", "remove")


@click.command()
@NAME
@click.argument("keys", nargs=-1, metavar="FIELD=VALUE...")
@click.option(
    "--from", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Keys in a file, one a line."
)
@click.option(
    "--field",
    "columns",
    multiple=True,
    metavar="PLACE:COLUMN=FIELD",
    help="Another name of a field in an output or step.",
)
@click.option(
    "--savepoints",
    default="refuse",
    show_default=True,
    type=click.Choice(CONSENTS),
    help="Whether savepoints may be removed.",
)
@click.option("--plan", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@MODULES
@AS_JSON
@guarded
def forget(
    name: str,
    keys: tuple[str, ...],
    modules: tuple[str, ...],
    *,
    file: Path | None,
    columns: tuple[str, ...],
    savepoints: str,
    plan: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the rows of keys from outputs, state, savepoints, stores and dead letters of a stopped pipeline."""
    lines = file.read_text(encoding="utf-8-sig").splitlines() if file is not None else []
    asked = keys_of([*keys, *(line.strip() for line in lines if line.strip())])
    names = dict(_parted(text, "visits:visitor=user_id") for text in columns)
    pipeline = chosen(modules, name)
    if not (plan or yes) and not as_json:
        click.echo(str(pipeline.forget(asked, columns=names, plan=True)))
        click.confirm("Remove them? There is no way back", abort=True)
    if as_json and not (plan or yes):
        raise ConfigurationError("--json does not ask", remedy="write --yes, or --plan")
    done = pipeline.forget(asked, columns=names, savepoints=savepoints, plan=plan)  # type: ignore[arg-type]
    click.echo(json.dumps(done.as_dict()) if as_json else str(done))
    if not (plan or done.complete):
        sys.exit(FAILED)


def keys_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values by field; ConfigurationError for a text that is not FIELD=VALUE.

    >>> keys_of(["user_id=17", "user_id=18", "mail=a=b"])
    {'user_id': ['17', '18'], 'mail': ['a=b']}
    """
    found: dict[str, list[str]] = {}
    for field, value in (_parted(text, "user_id=17") for text in texts):
        found.setdefault(field, []).append(value)
    return found


def _parted(text: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise ConfigurationError(f"{text!r} has no name or no value", remedy=f"write it as {example}")
    return name, value
