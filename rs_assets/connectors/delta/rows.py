"""Reads the rows of a Delta table by Arrow alone."""

from __future__ import annotations

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import fs


def dataset_of(table: DeltaTable, path: str) -> ds.Dataset:
    """The rows of `table`, which is at `path`.

    Arrow's own threads read them. Through delta-rs they would call Python for each file, and a program that ends right
    after that is aborted by the interpreter (https://github.com/apache/arrow/issues/45017).
    """
    if "://" in path:
        return table.to_pyarrow_dataset()
    return table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(path, fs.LocalFileSystem()))
