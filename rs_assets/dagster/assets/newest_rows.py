"""The newest rows of a table as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

ROWS = 5
# As many columns as fit on a page.
COLUMNS = 12
LETTERS = 60
# Characters with a meaning in Markdown or HTML: rows are shown as they are, and no image in them is fetched.
MARKED = re.compile(r"[\\|`*_\[\]<>&!~]")
# The prefix of partition values in `get_add_actions`.
PARTITION = "partition."


def newest_rows(table: DeltaTable, rows: int = ROWS) -> str:
    """At most `rows` rows of the files that were added last; empty for a table that has no rows or is not local.

    Empty for a table with deletion vectors, too: deleted rows would be shown.
    """
    root = urlsplit(table.table_uri)
    added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if root.scheme not in ("", "file") or not added or "deletionVectors" in (table.protocol().reader_features or ()):
        return ""
    found: list[dict[str, Any]] = []
    for action in sorted(added, key=lambda action: (action["modification_time"], action["path"]), reverse=True):
        found += _rows_of(Path(unquote(root.path)), action, rows - len(found))
        if len(found) >= rows:
            break
    return as_markdown(found)


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    r"""The rows as a Markdown table with the columns of the first row; columns that do not fit on a page are counted.

    >>> print(as_markdown([{"page": "a|b", "n": 1}, {"page": None, "n": 2}]))
    | page | n |
    |---|---|
    | a\|b | 1 |
    |  | 2 |
    """
    if not rows:
        return ""
    names = list(rows[0])[:COLUMNS]
    left = len(rows[0]) - len(names)
    head = [*map(_cell, names), *([f"{left} more"] if left else [])]
    lines = ([*(_cell(row.get(name)) for name in names), *([""] if left else [])] for row in rows)
    return "\n".join([_line(head), "|" + "---|" * len(head), *map(_line, lines)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows_of(root: Path, action: Mapping[str, Any], rows: int) -> list[dict[str, Any]]:
    parts = {name.removeprefix(PARTITION): value for name, value in action.items() if name.startswith(PARTITION)}
    with pq.ParquetFile(root / unquote(action["path"])) as file:
        first = next(file.iter_batches(batch_size=rows), None)
    return [] if first is None else [{**_values_of(first, row), **parts} for row in range(first.num_rows)]


def _values_of(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: _value(column[row]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _value(scalar: pa.Scalar) -> object:
    """A value as Python has it; times outside of Python's years 1 to 9999, which Spark allows, as text."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return str(scalar.type) if pa.types.is_nested(scalar.type) else scalar.cast(pa.string()).as_py()


def _cell(value: object) -> str:
    text = "" if value is None else " ".join(str(value).splitlines())
    short = text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
    return MARKED.sub(r"\\\g<0>", short)
