"""Rows of the program as Parquet files in a folder, for Spark's own file source."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rs_assets.common.files import write_atomically
from rs_assets.records.rows import Rows, to_table


def write_spool_file(folder: Path, table: pa.Table, *, first_row: int) -> Path:
    """Write `table` as one file that appears by a rename; its name has the number of its first row."""
    return _publish(table, spool_file(folder, first_row=first_row))


def spool_file(folder: Path, *, first_row: int) -> Path:
    """The file that begins with the row of that number."""
    return folder / f"rows-{first_row:015d}.parquet"


def write_array(folder: Path, rows: Rows, schema: pa.Schema) -> Path:
    """Write the rows of an array source, once: the name is a digest of the content, so other rows are new input."""
    table = to_table(rows, schema)
    digest = hashlib.sha256(repr([sorted(row.items(), key=str) for row in table.to_pylist()]).encode()).hexdigest()[:16]
    path = folder / f"rows-{0:015d}-{digest}.parquet"
    return path if path.exists() else _publish(table, path)


def _publish(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = pa.BufferOutputStream()
    pq.write_table(table, written)
    write_atomically(path, written.getvalue().to_pybytes())
    return path
