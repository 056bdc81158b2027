"""A shell in which commands are started, and killed with all their processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults.processes import PATIENCE_S
from tests.torture.commands.pages import FACTOR, FILES, STRICT
from tests.torture.commands.plain import Code
from tests.torture.history import Finding

REPOSITORY = Path(__file__).parents[3]
# How many files a command changes, and the seconds it takes, before one was seen to the end; the most is kept.
FIRST_CHANGES, FIRST_S = 40, 20.0
# A command that takes longer hangs. Backfills and proofs give way to all other work of the machine.
LIMIT_S = 4 * PATIENCE_S


@dataclass(frozen=True, slots=True)
class Started:
    """A process of a command, in a session of its own; what it says goes to `log`."""

    words: tuple[str, ...]
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """All it has said so far."""
        return self.log.read_text(errors="replace").strip()

    def kill(self) -> None:
        """End all processes of its session at once: the JVM and Python's workers have groups of their own."""
        for pid in psutil.pids():
            with suppress(ProcessLookupError):
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True)
class Shell:
    """Starts commands over the home in `root`, and kills them at moments that `chance` draws."""

    root: Path
    chance: random.Random
    say: Callable[[str], None]
    kills: int = 0
    _usual: dict[str, tuple[int, float]] = field(default_factory=dict)
    _number: int = 0

    @property
    def home(self) -> Path:
        """Where the commands keep all they have."""
        return self.root / "home"

    def start(self, *words: str, code: Code) -> Started:
        """Begin `rs-assets WORDS` with this code."""
        self._number += 1
        log = self.root / f"{self._number:03d}-{words[0]}.log"
        environment = {
            **os.environ,
            FILES: str(self.root / "in"),
            FACTOR: str(code.factor),
            STRICT: "yes" if code.strict else "",
            "RS_HOME": str(self.home),
            "DAGSTER_HOME": str(self.root / "dagster"),
            "RS_SPARK_MASTER": "local[1]",
            "PYTHONPATH": str(REPOSITORY),
            "COLUMNS": "200",
        }
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "rs_assets.cli.main",
            *words,
            "-m",
            "tests.torture.commands.pages",
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, env=environment, cwd=self.root, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.say(f"$ {' '.join(words)}   ({log.name}, {code})")
        return Started(words, process, log)

    def wait(self, started: Started) -> int:
        """Its exit code once it has ended; a Finding if it hangs."""
        seen = 0, 0.0
        for seen in self._watched(started):
            if seen[1] > LIMIT_S:
                started.kill()
                message = f"{started.words[0]} hangs: {started.log}"
                raise Finding(message)
        started.kill()
        if started.process.returncode == 0:
            files, seconds = self._usual.get(started.words[0], (0, 0.0))
            self._usual[started.words[0]] = max(seen[0], files), max(seen[1], seconds)
        return started.process.returncode

    def kill(self, started: Started, share: float) -> int | None:
        """Its exit code, or None if it was killed: once it has made that share of its usual changes of files.

        In one case of three the share is of its usual time.
        """
        files, seconds = self._usual.get(started.words[0], (FIRST_CHANGES, FIRST_S))
        by_time = self.chance.random() < 0.3
        for changes, spent in self._watched(started):
            reached = spent > share * seconds if by_time else changes >= max(share * files, 1)
            if reached or spent > 2 * seconds + PATIENCE_S / 10:
                started.kill()
                self.kills += 1
                self.say(f"killed {started.words[0]} after {spent:.1f} s and {changes} changes, of {files}")
                return None
        started.kill()
        return started.process.returncode

    def _watched(self, started: Started) -> Iterator[tuple[int, float]]:
        """While it runs, again and again: how many changes of files it has made, and for how many seconds it runs."""
        began, before, changes = time.monotonic(), self._files(), set()
        while started.process.poll() is None:
            changes |= self._files() - before
            yield len(changes), time.monotonic() - began
            time.sleep(0.03)

    def _files(self) -> set[tuple[str, int]]:
        """All files of the home with the time of their change, without the beats of leases."""
        folders = ((folder, names) for folder, _, names in os.walk(self.home) if "_beats" not in folder)
        return {each for folder, names in folders for name in names for each in _change(Path(folder, name))}


def _change(file: Path) -> Iterator[tuple[str, int]]:
    """A file and the time of its change; nothing if it is gone."""
    with suppress(FileNotFoundError):
        yield str(file), file.stat().st_mtime_ns
