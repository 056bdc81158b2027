"""The command `state`: rows of a step's state."""

from __future__ import annotations

import json
from typing import Any

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME, chosen, guarded
from rs_assets.cli.output import show


@click.command()
@NAME
@click.argument("step")
@click.option("--key", "keys", multiple=True, metavar="FIELD=VALUE", help="Rows whose key has this field; repeatable.")
@click.option("--batch", type=int, help="The state as it was after this batch, from the table of snapshots.")
@click.option("--diff", type=int, metavar="BATCH", help="What changed between this batch and --batch (or now).")
@click.option("--open", "open_now", is_flag=True, help="The open windows as they would fire now; starts Spark.")
@click.option("--refresh", is_flag=True, help="Take a snapshot first; starts Spark.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="At most so many rows.")
@MODULES
@AS_JSON
@guarded
def state(name: str, step: str, modules: tuple[str, ...], *, limit: int, as_json: bool, **how: Any) -> None:
    """Show the state of a step: rows by key, as of a batch, or the changes between two batches."""
    from rs_assets.cli.rows.state_view import StateQuestion, answer

    question = StateQuestion(step=step, limit=limit, **how)
    said, rows = answer(chosen(modules, name).topology, question)
    if as_json:
        click.echo(json.dumps({"about": said, "rows": rows}, default=str))
        return
    show(rows, tuple(rows[0]) if rows else (), empty="no row")
    click.echo(said)
