"""Modes of the interpreter in which the package must work as in any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_definitions_load_without_docstrings_and_assertions():
    program = "import pipelines.definitions as made; print(len(list(made.defs.resolve_all_asset_specs())) > 0)"
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-OO", "-c", program]
    loaded = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, check=False)
    assert (loaded.stdout, loaded.returncode) == ("True\n", 0), loaded.stderr


def test_rows_of_tables_are_read_by_threads_that_an_exit_does_not_abort():
    """Of 40 programs that ended right after `DeltaTable.to_pyarrow_table` four were aborted, with exit code 134."""
    files = (ROOT / "rs_assets").rglob("*.py")
    readers = [file.relative_to(ROOT).as_posix() for file in files if ".to_pyarrow_" in file.read_text()]
    assert readers == ["rs_assets/connectors/delta/rows.py"]
