"""Commands that read recorded batches again give way to a stream."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rs_assets.cli.main import main
from rs_assets.common.priority import default_nice, give_way
from rs_assets.errors import ConfigurationError


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By how much the priority was lowered each time."""
    steps = list[int]()
    monkeypatch.setattr(os, "nice", steps.append)
    return steps


@pytest.mark.parametrize(
    "command", [["backfill", "none", "--partition", "2026-01-05"], ["try", "none"], ["prove", "none"]]
)
def test_command_gives_way_before_anything_else(
    lowered: list[int], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.delenv("RS_NICE")
    for more in ([], ["--nice", "19"], ["--nice", "0"]):
        assert CliRunner().invoke(main, [*command, *more]).exit_code == 1
    assert lowered == [10, 19]


def test_a_number_beyond_the_priorities_is_refused(lowered: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("20", "-1", "low"):
        monkeypatch.setenv("RS_NICE", text)
        with pytest.raises(ConfigurationError, match="RS_NICE") as refused:
            give_way()
        assert refused.value.remedy == "set it to a number from 0 to 19"
    monkeypatch.setenv("RS_NICE", "19")
    give_way()
    assert (default_nice(), lowered) == (19, [19])


def test_processes_that_are_started_then_have_the_lower_priority() -> None:
    shown = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
    program = (
        "import subprocess, sys; from rs_assets.common.priority import give_way; give_way(3);"
        f" subprocess.run([sys.executable, '-c', {shown!r}])"
    )
    was, now = (
        int(subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True).stdout)
        for each in (shown, program)
    )
    assert now == min(was + 3, 19)
