"""A ledger over Kafka: entries go from topic to topic while producer, broker and pipeline are killed at random.

The checker (`ledger_check`) then proves from what a reader saw that nothing was lost, doubled, aborted or out of order.
A seed has its kills; what they meet is up to the machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rs_assets.testing import KafkaBroker
from tests.torture.ledger_check import Seen, faults
from tests.torture.ledger_clients import PARTITIONS, held, logged

INPUT, OUTPUT = "ledger-in", "ledger-out"
VICTIMS = ("producer", "broker", "pipeline")
# A start of Spark and a few batches on a busy machine, or a pipeline that waits for its broker first.
PATIENCE_S = 600
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Kill:
    """Who is killed, so long after it was at work; a broker stays away for a while."""

    victim: str
    after_s: float
    away_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """How a ledger went: `faults` is empty if all was well; `ended` are programs that gave up by themselves."""

    faults: tuple[str, ...]
    entries: int
    attempts: int
    killed: Mapping[str, int]
    ended: Mapping[str, int]
    seconds: float

    def __str__(self) -> str:
        """In a line, and one more for each fault."""
        killed = ", ".join(f"{count} {name}" for name, count in sorted(self.killed.items()))
        ended = ", ".join(f"{count} {name}" for name, count in sorted(self.ended.items())) or "none"
        told = f"{self.entries} entries of {self.attempts} transactions in {self.seconds:.0f} s; killed: {killed}"
        return "\n".join([f"{told}; ended by themselves: {ended}; {len(self.faults)} faults", *self.faults])


def planned(seed: int, count: int) -> list[Kill]:
    """The kills of a seed; the same for ever."""
    chance = random.Random(seed)
    return [Kill(chance.choice(VICTIMS), chance.uniform(0, 2), chance.uniform(0, 3)) for _ in range(count)]


class Program:
    """One that is started again whenever it ends; `signs` grows while it is at work."""

    def __init__(self, name: str, arguments: Sequence[object], folder: Path, signs: Path | None = None) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        self.signs = signs or self.log
        self._command = [sys.executable, "-W", "ignore", "-m", *map(str, arguments)]
        self._process: subprocess.Popen[bytes] | None = None
        self._size = 0

    def start(self, *more: object) -> None:
        """Start it, in a process group of its own."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *map(str, more)], stdout=log, stderr=log, start_new_session=True
            )
        self._size = self._signs()

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def works(self) -> bool:
        """Whether it has done something since it was started."""
        return self._signs() > self._size

    def kill(self) -> None:
        """SIGKILL, with its JVM."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def told(self) -> str:
        """What it said at last."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def _signs(self) -> int:
        return self.signs.stat().st_size if self.signs.exists() else 0


class Ledger:
    """A ledger in an empty folder; `say` gets a line for each kill."""

    def __init__(self, folder: Path, *, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.seen = folder / "seen.jsonl"
        self.killed: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._starts = 0

    def kept(self, kills: Sequence[Kill]) -> Result:
        """Keep it over these kills, and check it."""
        began = time.monotonic()
        with KafkaBroker() as broker:
            for topic in (INPUT, OUTPUT):
                broker.create_topic(topic, PARTITIONS)
            with self._programs(broker.bootstrap_servers) as programs:
                for number, kill in enumerate(kills, 1):
                    self._one(kill, programs, broker)
                    self.say(f"{number}/{len(kills)} {time.monotonic() - began:.0f} s: killed the {kill.victim}")
                self._close(programs)
            committed = [seen.entry for seen in held(broker.bootstrap_servers, INPUT)]
            there = held(broker.bootstrap_servers, OUTPUT)
        seen = logged(self.seen)
        found = faults(committed, seen)
        if sorted(there, key=_place) != sorted(seen, key=_place):
            found.append("what the reader saw is not what is there in the end")
        attempts = len({entry.attempt for entry in committed})
        return Result(tuple(found), len(committed), attempts, self.killed, self.ended, time.monotonic() - began)

    @contextmanager
    def _programs(self, servers: str) -> Iterator[dict[str, Program]]:
        clients, pipeline = "tests.torture.ledger_clients", "tests.torture.ledger_pipeline"
        home = self.folder / "rs"
        made = (
            Program("producer", (clients, "produce", servers, INPUT, self._stop("producer")), self.folder),
            Program("pipeline", (pipeline, servers, INPUT, OUTPUT, home), self.folder, self.seen),
            Program("reader", (clients, "read", servers, OUTPUT, self._stop("reader"), self.seen), self.folder),
        )
        programs = {program.name: program for program in made}
        try:
            for program in made:
                self._begin(program)
            yield programs
        finally:
            for program in made:
                program.kill()

    def _begin(self, program: Program) -> None:
        self._starts += 1
        more = {"producer": [f"p{self._starts}"], "pipeline": ["go"], "reader": []}
        program.start(*more[program.name])

    def _one(self, kill: Kill, programs: Mapping[str, Program], broker: KafkaBroker) -> None:
        victim = programs.get(kill.victim, programs["pipeline"])
        self._wait(programs, lambda: victim.works)
        until = time.monotonic() + kill.after_s
        self._wait(programs, lambda: time.monotonic() > until)
        self.killed[kill.victim] += 1
        if kill.victim == "broker":
            broker.kill()
            time.sleep(kill.away_s)
            broker.restart()
        else:
            victim.kill()
            self._begin(victim)

    def _wait(self, programs: Mapping[str, Program], done: Callable[[], bool]) -> None:
        """Wait; what ends by itself is started again, but for a reader, which would see things twice."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            for program in programs.values():
                if program.code is not None:
                    self.ended[program.name] += 1
                    if program.name == "reader":
                        raise RuntimeError(f"the reader ended: {program.told()}")
                    self._begin(program)
            if time.monotonic() > deadline:
                raise RuntimeError(f"nothing goes on: {programs['pipeline'].told()}")
            time.sleep(LOOK_S)

    def _close(self, programs: Mapping[str, Program]) -> None:
        """The producer ends, the pipeline is killed once more and reads what is there, the reader sees it."""
        producer, pipeline, reader = (programs[name] for name in ("producer", "pipeline", "reader"))
        self._stop("producer").touch()
        self._until_ended(producer, lambda: self._begin(producer))
        self.killed["pipeline"] += 1
        pipeline.kill()
        pipeline.start("finish")
        self._until_ended(pipeline)
        self._stop("reader").touch()
        self._until_ended(reader)

    def _until_ended(self, program: Program, again: Callable[[], None] | None = None) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (code := program.code) != 0:
            if code is not None and again is not None:
                self.ended[program.name] += 1
                again()
            elif code is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the {program.name} does not end well: {program.told()}")
            time.sleep(LOOK_S)

    def _stop(self, name: str) -> Path:
        return self.folder / f"stop-{name}"


def _place(seen: Seen) -> tuple[int, int]:
    return seen.place, seen.offset
