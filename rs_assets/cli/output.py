"""What commands print: rows as a table or as JSON, and the progress of long work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

# Characters of a value in a table.
CELL = 160


def emit(rows: Sequence[dict[str, Any]], *, as_json: bool, empty: str = "nothing") -> None:
    """Rows as JSON for programs, as a table for people."""
    if as_json:
        click.echo(json.dumps(rows, default=str))
        return
    show(rows, tuple(rows[0]) if rows else (), empty=empty)


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, empty: str) -> None:
    """A table on the terminal, or `empty` if there are no rows."""
    from rich.table import Table
    from rich.text import Text

    from rs_assets.connectors.console.writer import terminal

    if not rows:
        click.echo(empty)
        return
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_short(row[column])) for column in columns))
    terminal().print(table)


def _short(value: object) -> str:
    """A value for a cell: long ones are cut; `--json` has them in full."""
    text = "" if value is None else str(value)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}\u2026"


@contextmanager
def progress(text: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """A spinner with a bar for long work; call the value with the finished and the total amount."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"[bold]{text}"), BarColumn())
    with Progress(*columns, TimeElapsedColumn(), disable=hidden, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
