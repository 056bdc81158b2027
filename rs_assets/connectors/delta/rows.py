"""Reads the rows of a Delta table by Arrow alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pyarrow import fs

if TYPE_CHECKING:
    # It loads pandas, for half a second.
    import pyarrow.dataset as ds


def dataset_of(table: DeltaTable, path: str) -> ds.Dataset:
    """The rows of `table`, which is at `path`.

    Arrow's own threads read them. Through delta-rs they would call Python for each file, and a program that ends right
    after that is aborted by the interpreter (https://github.com/apache/arrow/issues/45017).
    """
    if "://" in path:
        return table.to_pyarrow_dataset()
    return table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(path, fs.LocalFileSystem()))


def small_table(table: DeltaTable, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a small table, or some of its `columns`; one with deletion vectors too, which Arrow cannot read."""
    try:
        return table.to_pyarrow_table(columns=None if columns is None else list(columns))
    except DeltaProtocolError:
        found = pa.table(QueryBuilder().register("rows", table).execute("SELECT * FROM rows").read_all())
        return found if columns is None else found.select(list(columns))
