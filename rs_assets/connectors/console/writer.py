"""The console sink: prints batches as tables on standard output."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rs_assets.connectors.sink import BatchMark, Staged

# A file or a pipe takes lines of any length, so tables are not wrapped to the width of a terminal.
WIDE = 500
# The digits of a floating point number that are exact.
SURE_DIGITS = 15


@dataclass(frozen=True, slots=True)
class ConsoleWriter:
    """Prints at most `max_rows` rows of each batch; a repeated batch is printed again."""

    name: str
    max_rows: int = 20

    def location(self) -> str:
        """The name shown to users."""
        return "standard output"

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  a console stores nothing
        """False: printed batches are not remembered."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  a console stores nothing
        """None: printed batches are not stored."""
        return None

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  printed rows remain
        """Does nothing: rows are printed again."""
        return "prints rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Collect the rows."""
        rows = batch.toArrow()
        return Staged(lambda: self._show(rows, mark))

    def _show(self, rows: pa.Table, mark: BatchMark) -> int:
        if rows.num_rows:
            terminal().print(as_table(rows, title=f"{self.name}, batch {mark.batch_id}", max_rows=self.max_rows))
        return int(rows.num_rows)


def terminal() -> Console:
    """Standard output; if it is not a terminal, lines are as long as their content."""
    out = Console()
    return out if out.is_terminal or "COLUMNS" in os.environ else Console(width=WIDE)


def as_table(rows: pa.Table, *, title: str, max_rows: int) -> Table:
    """Rows as a table for a terminal; control characters are shown escaped, and values are not truncated."""
    table = Table(title=title, title_justify="left")
    for name, kind in zip(rows.schema.names, rows.schema.types, strict=True):
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows.slice(0, max_rows).to_pylist():
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    if rows.num_rows > max_rows:
        table.caption = f"and {rows.num_rows - max_rows:,} more"
    return table


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        # All timestamps are UTC.
        text = str(value.replace(tzinfo=None))
        value = text.rstrip("0") if value.microsecond else text
    elif isinstance(value, float):
        value = float(f"{value:.{SURE_DIGITS}g}")
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
