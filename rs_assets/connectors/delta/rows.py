"""Reads the rows of a Delta table by Arrow alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pyarrow import fs
from pyarrow.parquet import filters_to_expression

if TYPE_CHECKING:
    # It loads pandas, for half a second.
    import pyarrow.dataset as ds

# A column, an operator such as "=" and ">=", and a value.
Condition = tuple[str, str, object]


def dataset_of(table: DeltaTable, path: str) -> ds.Dataset:
    """The rows of `table`, which is at `path`.

    Arrow's own threads read them. Through delta-rs they would call Python for each file, and a program that ends right
    after that is aborted by the interpreter (https://github.com/apache/arrow/issues/45017).
    """
    if "://" in path:
        return table.to_pyarrow_dataset()
    return table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(path, fs.LocalFileSystem()))


def rows_of(
    table: DeltaTable,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    only: list[Condition] | pc.Expression | None = None,
) -> pa.Table:
    """The rows of `table`, which is at `path`, for which all of `only` hold; all rows and all columns by default."""
    condition = None if only is None else filters_to_expression(only)
    return dataset_of(table, path).to_table(columns=None if columns is None else list(columns), filter=condition)


def small_table(table: DeltaTable, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a small table, or some of its `columns`; one with deletion vectors too, which Arrow cannot read."""
    try:
        return rows_of(table, path, columns=columns)
    except DeltaProtocolError:
        found = pa.table(QueryBuilder().register("rows", table).execute("SELECT * FROM rows").read_all())
        return found if columns is None else found.select(list(columns))
