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
