"""Rows of a table for people: the same as delta-rs reads, by threads that never call Python."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from rs_assets.connectors.delta.rows import dataset_of


def test_should_read_the_same_rows_without_calling_python(tmp_path: Path) -> None:
    path = str(tmp_path / "a table")
    values = ["a b", "ü%=:x", "%25", "a/b", "#?&", "🙂", None, "a%20b", "'\"", ".", "x+y"]
    rows = pa.table({"kind": pa.array(values), "n": range(len(values))})
    write_deltalake(path, rows, partition_by=["kind"])
    table = DeltaTable(path)
    found = dataset_of(table, path)
    assert found.to_table().sort_by("n") == table.to_pyarrow_table().sort_by("n")
    assert isinstance(found.filesystem, fs.SubTreeFileSystem)
    assert isinstance(found.filesystem.base_fs, fs.LocalFileSystem)
