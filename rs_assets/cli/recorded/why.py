"""The commands `why`, `records-of` and `lineage`: what became of records, and what rows and tables are made of."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME_OR_NONE, chosen, fields_of, guarded, known


@click.command()
@NAME_OR_NONE
@click.option("--where", metavar="SQL", help='A condition on the fields of the source: "id = 17".')
@click.option("--text", metavar="TEXT", help="A part of the text of the record.")
@click.option("--split", help="The split of the record, as in its dead letter.")
@click.option("--line", type=int, help="Its line in the split.")
@click.option("--source", help="The source, if there are several.")
@click.option("--batch", type=click.IntRange(min=0), help="The batch that read it; default: the newest ones first.")
@click.option("--limit", default=1, show_default=True, type=click.IntRange(min=1), help="How many records at most.")
@MODULES
@AS_JSON
@guarded
def why(name: str | None, modules: tuple[str, ...], *, as_json: bool, **sought: Any) -> None:
    """Show what became of a record: which step passed it on, dropped it, or keeps it, and why."""
    pipeline = chosen(modules, name)
    found = pipeline.why(**sought)
    if as_json:
        click.echo(json.dumps([each.as_dict() for each in found], default=str))
    for each in () if as_json else found:
        click.echo(f"{each}\n")
    if not found:
        click.echo(f"{pipeline.name}: no such record in the batches that can be read again", err=True)
        sys.exit(FAILED)


@click.command("records-of")
@NAME_OR_NONE
@click.option("--row", "fields", multiple=True, required=True, help="FIELD=VALUE of the row; \\N is null.")
@click.option("--sink", help="The sink, if there are several.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many records to show.")
@MODULES
@AS_JSON
@guarded
def records_of(
    name: str | None, modules: tuple[str, ...], *, fields: tuple[str, ...], sink: str | None, limit: int, as_json: bool
) -> None:
    """Show the records that a row of a result is made of."""
    from rs_assets.connectors.store.question import NULL

    given = fields_of("--row", fields, example="page=/index")
    row = {field: None if value == NULL else value for field, value in given.items()}
    found = chosen(modules, name).records_of(row, sink=sink, limit=limit)
    click.echo(json.dumps(found.as_dict()) if as_json else str(found))
    if not found.rows:
        sys.exit(FAILED)


@click.command()
@click.argument("table")
@click.option("--version", type=int, help="The version of the table (the newest if none is named).")
@MODULES
@AS_JSON
@guarded
def lineage(table: str, modules: tuple[str, ...], *, version: int | None, as_json: bool) -> None:
    """Trace a table's version back to the batch, the run, the offsets and the snapshots that made it."""
    from rs_assets.cli.recorded.lineage import lineage_of, show_lineage
    from rs_assets.common.home import Home

    found = lineage_of(known(modules), table, version=version, home=Home.default())
    if as_json:
        click.echo(json.dumps(found.as_dict()))
        return
    show_lineage(found)
