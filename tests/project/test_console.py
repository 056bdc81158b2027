"""The progress bar of a run, in a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

# What Dagster does to a step: standard output goes to a file from here on.
CHILD = """
import os, sys
from rich.console import Console
from rs_assets import StreamBuilder
from rs_assets.cli.console import bar_of

pipeline = StreamBuilder.data_stream("shop", "bar").from_array([{"n": 1}]).to_print().build()
with bar_of(pipeline, Console(), hidden=False) as bar:
    log = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    kept = os.dup(1)
    os.dup2(log, 1)
    bar.progress.update(bar.task, description="batch 1, 20 rows")
    bar.progress.refresh()
    print("a line of the log", flush=True)
    os.dup2(kept, 1)
"""


def test_the_bar_moves_while_standard_output_goes_to_a_file(tmp_path):
    ours, theirs = pty.openpty()
    log = tmp_path / "step.out"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(log)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait(timeout=60) == 0, seen.decode()
    assert "batch 1, 20 rows" in seen.decode()
    assert log.read_text() == "a line of the log\n"
