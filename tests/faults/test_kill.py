"""SIGKILL in the middle of the access log example: started again, it writes what one batch would have written."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.access_log_data import write
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.examples.access_log import expected, letters, malformed, written
from tests.faults.processes import PATIENCE_S, started, wait_for

# At 700 ms a line the first windows fire in the fourth batch.
LINES, BATCH = 2_000, 400

# Runs the example; with a word it stops for good at that point, so that the kill always meets it.
PROGRAM = """
import sys, threading
from pathlib import Path

from pipelines.access_log import access_log
from rs_assets.runtime.options import RunOptions
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.delta.writer import DeltaWriter

log, home, batch, point, reached = sys.argv[1:]

def stop_behind(kind, method):
    original = getattr(kind, method)
    def stopping(*args):
        result = original(*args)
        if result:
            Path(reached).touch()
            threading.Event().wait()
        return result
    setattr(kind, method, stopping)

if point == "letters":
    stop_behind(DeadLetters, "write")
elif point == "sink":
    stop_behind(DeltaWriter, "_add")
access_log(Path(log), job="killed", max_rows_per_batch=int(batch)).run(RunOptions(home=Home(Path(home))), finish=True)
"""


@contextmanager
def running(log: Path, home: Path, *, point: str = "") -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The example in a process group of its own, which is killed whole at the end, its JVM included."""
    reached = home / f"reached-{point}"
    with started(PROGRAM, log, home, BATCH, point, reached) as process:
        yield process, reached


@dataclass(frozen=True, slots=True)
class Example:
    """The example with its log and its home."""

    log: Path
    home: Path

    @property
    def options(self) -> RunOptions:
        return RunOptions(home=Home(self.home))

    def checkpoint(self, query: str) -> CheckpointLog:
        return CheckpointLog(self.options.home.job("web", "killed") / "g0001" / query / "checkpoint")


def behind_the_dead_letters(example: Example) -> None:
    with running(example.log, example.home, point="letters") as (process, reached):
        wait_for(reached, process)
    assert example.checkpoint("page_windows").last_committed() == -1, "the letters of a batch that is not committed"
    assert letters(example.options)


def in_a_commit(example: Example) -> None:
    with running(example.log, example.home, point="sink") as (process, reached):
        wait_for(reached, process)
    assert (example.home / "tables" / "web" / "requests_by_page").exists()
    pages = example.checkpoint("page_windows")
    assert pages.last_committed() < max(int(p.name) for p in (pages.folder / "offsets").iterdir() if p.name.isdigit())


def at_any_time(example: Example) -> None:
    sessions = example.checkpoint("client_sessions")
    with running(example.log, example.home) as (process, _):
        wait_for(sessions.folder / "commits" / str(sessions.last_committed() + 1), process)
        delay_s = random.random()
        time.sleep(delay_s)
    print(f"killed {delay_s:.3f} s behind a commit")


@pytest.mark.timeout(900)
@pytest.mark.faults
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([in_a_commit], id="once", marks=pytest.mark.canary),
        pytest.param([behind_the_dead_letters, in_a_commit, at_any_time], id="three times", marks=pytest.mark.long),
    ],
)
def test_killed_it_writes_every_row_once(tmp_path: Path, kills: list[Callable[[Example], None]]) -> None:
    example = Example(write(tmp_path / "in" / "access.log", LINES), tmp_path / "rs")
    example.home.mkdir()
    for kill in kills:
        kill(example)
    with running(example.log, example.home) as (process, _):
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output.decode()[-3000:]
    assert written(example.options) == expected(example.log)
    assert letters(example.options) == malformed(example.log)
