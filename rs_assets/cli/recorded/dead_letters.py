"""Dead letters of a pipeline: shown, counted by reason, exported to a file for repair, redriven."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError
from rs_assets.records.columns import RAW_LIMIT_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = ("at", "step", "source", "split", "line", "reason", "record")


@click.command("dead-letters")
@NAME_OR_NONE
@click.option("--rows", default=10, show_default=True, type=click.IntRange(min=1), help="The newest, at most so many.")
@click.option(
    "--export", "file", type=click.Path(path_type=Path), help="Write all records into a new file, as they were."
)
@MODULES
@AS_JSON
@guarded
def dead_letters(name: str | None, rows: int, file: Path | None, modules: tuple[str, ...], as_json: bool) -> None:
    """Show the records that a pipeline rejected: their place, the reason, and their text."""
    from rs_assets.cli.output import show
    from rs_assets.connectors.console.writer import as_table, terminal
    from rs_assets.connectors.dead_letters import dead_letters_of

    topology = chosen(modules, name).topology
    letters = dead_letters_of(Home.default().dead_letters, topology.namespace, topology.job)
    told = export(letters, file) if file is not None else ""
    newest = letters.slice(max(letters.num_rows - rows, 0))
    if as_json:
        click.echo(json.dumps({"count": letters.num_rows, "newest": newest.to_pylist()}, default=str))
        return
    if not letters.num_rows:
        click.echo(f"{topology.job}: no dead letters")
        return
    counts = letters.group_by(["step", "reason"]).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    rows_of = [{"dead letters": f"{row['count_all']:,}", **row} for row in counts.to_pylist()]
    show(rows_of, ("dead letters", "step", "reason"), empty="")
    title = f"the newest of {letters.num_rows:,}" if letters.num_rows > rows else "all of them"
    terminal().print(as_table(newest.select(SHOWN), title=title, max_rows=rows))
    click.echo(f"once the code is corrected: rs-assets redrive {topology.job}")
    if told:
        click.echo(told)


@click.command()
@NAME_OR_NONE
@click.option("--where", metavar="SQL", help="A condition on the dead letters: \"reason LIKE 'malformed%'\".")
@click.option("--plan", is_flag=True, help="Only say how many the current code would accept.")
@MODULES
@AS_JSON
@guarded
def redrive(name: str | None, modules: tuple[str, ...], *, where: str | None, plan: bool, as_json: bool) -> None:
    """Take dead letters through the current code, and append their rows, each once; the stream may run."""
    done = chosen(modules, name).redrive(where=where, plan=plan)
    click.echo(json.dumps(done.as_dict()) if as_json else str(done))


def export(letters: pa.Table, file: Path) -> str:
    """Write the text of each record into a new file, a line each; returns what was written, and what was not.

    ConfigurationError if the file exists or cannot be written.
    """
    texts = [text for text in letters["record"].to_pylist() if text is not None]
    try:
        with file.open("x", encoding="utf-8") as content:
            content.writelines(f"{text}\n" for text in texts)
    except FileExistsError as error:
        raise ConfigurationError(f"{file} already exists", remedy="name a new file") from error
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}", remedy="name another file") from error
    left, cut = letters.num_rows - len(texts), sum(len(text) >= RAW_LIMIT_BYTES for text in texts)
    told = f"wrote {count_of(len(texts), 'record')} into {file}, a line each: correct them and let a source read it"
    told += f"; dead letters without a text, which are left out: {left:,}" * bool(left)
    return told + f"; texts of which only the first 64 KiB are there: {cut:,}" * bool(cut)
