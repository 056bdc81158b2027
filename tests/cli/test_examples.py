"""The commands that the README and docs/operations.md show for the example access_log do what they show."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import QUICK_START
from tests.project.words import ROOT

# What is in a line of a shell, or in the first cell of a table.
SHOWN = re.compile(r"^(?:\| `)?(rs-assets [^`#\n]*)", re.MULTILINE)
# These run until they are stopped, or for minutes.
LONG = {"standby", "start", "serve", "torture"}
LAST = ("rewind", "rescale")
PROJECT = """[project]
name = "example"
[tool.rs_assets]
pipelines = ["pipelines.access_log"]
"""


def commands():
    """Those of the example, each once, in the order of the pages."""
    pages = (ROOT / "README.md", ROOT / "docs" / "operations.md")
    found = [shlex.split(line) for page in pages for line in SHOWN.findall(page.read_text())]
    chosen = [words[1:] for words in found if {"access_log", "requests_by_page"} & set(words)]
    ending = [words for n, words in enumerate(chosen) if words not in chosen[:n] and words[0] not in LONG]
    # The others show what a rewind takes away, and it does not go back to before a rescale.
    return sorted(ending, key=lambda words: LAST.index(words[0]) if words[0] in LAST else -1)


def python(folder, *words):
    """What a program of the project shows, and its exit code."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RS_HOME": str(folder / "home"),
        "DAGSTER_HOME": str(folder / "dagster"),
        "JAVA_TOOL_OPTIONS": QUICK_START,
    }
    done = subprocess.run(
        [sys.executable, "-m", *words], check=False, env=environment, cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_commands_of_the_example_do_what_the_pages_show(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "dagster").mkdir()
    shown = commands()
    assert {words[0] for words in shown} > {"savepoint", "restore", "rescale", "state", "why", "capture", "records-of"}
    assert python(tmp_path, "pipelines.access_log_data")[0] == 0
    refused = {}
    for words in (["run", "access_log"], *shown):
        code, text = python(tmp_path, "rs_assets.cli.main", *words)
        if code:
            refused[shlex.join(words)] = text[-1000:]
    assert refused == {}
    assert Path(tmp_path / "FILE").read_text()
