"""Random transactions over a table while its pipeline and its server are killed at moments of a seed.

    writers:   transactions, from the first start to the last kill, each part of them with one kill
    pipeline:  start -> SIGKILL -> start -> ... -> the rest
    server:    ......... SIGKILL, start ...........

Then the mirror is the table, and the history that of all changes (`replay`). A seed has its transactions and its kills;
how they meet is up to the machine.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rs_assets.connectors.changes.landed import OWNER
from rs_assets.connectors.changes.reading import FOLDER
from tests.changes.databases import Database, Refused
from tests.changes.program import Outputs
from tests.changes.replay import Seen, faults
from tests.changes.transactions import transaction
from tests.torture.ledger import Program

WRITERS = 2
VICTIMS = ("pipeline", "pipeline", "server", "both")
# How many steps of batches may go before a kill; with none it comes at any time after the start.
STEPS, EARLY_S, AFTER_S = 16, 25.0, 1.0
# Half of the transactions that belong to a kill come within so long, a start of Spark and some batches; the others come
# ever more slowly, so that there are some left for the batches before the kill however long the start takes.
PART_S = 20.0
# A start of Spark on a busy machine.
PATIENCE_S, LOOK_S = 400, 0.01
ALTER = "ALTER TABLE"
# How often a pipeline may end by itself before the next kill: its server is away, or its table is altered just then.
ENDS = 4


@dataclass(frozen=True, slots=True)
class Kill:
    """Who is killed, after how many steps of batches since the last start or kill, and so long after the last one."""

    victim: str
    steps: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """How a campaign went: `faults` is empty if all was well; `ended`: how often the pipeline gave up by itself."""

    faults: tuple[str, ...]
    transactions: Mapping[str, int]
    changes: Mapping[str, int]
    killed: Mapping[str, int]
    ended: int
    mirror: int
    history: int
    seconds: float

    def __str__(self) -> str:
        """In some lines, and one more for each fault."""
        lines = (
            f"transactions: {_listed(self.transactions)}",
            f"changes: {_listed(self.changes)}",
            f"killed: {_listed(self.killed)}; the pipeline ended by itself: {self.ended}",
            f"rows of the mirror: {self.mirror}, of the history: {self.history}; {self.seconds:.0f} s",
            f"faults: {len(self.faults)}",
        )
        return "\n".join([*lines, *self.faults])


def planned(seed: int, count: int) -> list[Kill]:
    """The kills of a seed; the same for ever."""
    chance = random.Random(seed)
    drawn = ((chance.choice(VICTIMS), chance.randrange(STEPS), chance.random()) for _ in range(count))
    return [Kill(victim, steps, part * (AFTER_S if steps else EARLY_S)) for victim, steps, part in drawn]


@dataclass(slots=True)
class Writers:
    """Clients that write the transactions of a seed, of which those of a kill are released as time goes on.

    Until `begun`, when the pipeline has taken the fields of the table, no one alters it: a column that was added before
    would be a field, and could not be dropped.
    """

    database: Database
    url: str
    seed: int
    count: int
    kills: int
    begun: Callable[[], bool]
    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    _since: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _given_up: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def writing(self) -> Iterator[list[Future[None]]]:
        """Write during the block, and the rest after it; nothing more if it fails."""
        with ThreadPoolExecutor(WRITERS) as pool:
            try:
                yield [pool.submit(self._write, first) for first in range(WRITERS)]
            except BaseException:
                self._given_up.set()
                raise

    def killed(self) -> None:
        """One kill more is over."""
        self.done, self._since = self.done + 1, time.monotonic()

    def _released(self) -> float:
        if self.done >= self.kills:
            return self.count
        waited = time.monotonic() - self._since
        return self.count * (self.done + waited / (waited + PART_S)) / self.kills

    def _write(self, first: int) -> None:
        numbers = iter(range(first, self.count, WRITERS))
        number: int | None = next(numbers, None)
        while number is not None and not self._given_up.is_set():
            try:
                with self.database.client(self.url) as client:
                    while number is not None and not self._given_up.is_set():
                        if number >= self._released():
                            self._given_up.wait(LOOK_S)
                            continue
                        # One that the server's end cuts off is not repeated.
                        given, number = number, next(numbers, None)
                        statements = transaction(self.seed, given, self.database.dialect)
                        if ALTER in statements[0] and not self.begun():
                            self._count("left out")
                            continue
                        self._count(_outcome(client.write, statements))
            except self.database.gone:
                self._count("connections lost")
                self._given_up.wait(0.1)

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1


def _outcome(write: Callable[[Sequence[str]], None], statements: Sequence[str]) -> str:
    try:
        write(statements)
    except Refused:
        return "failed"
    return "rolled back" if statements[-1].endswith("ROLLBACK") else "committed"


class Campaign:
    """A campaign in an empty folder; `say` gets a line for each kill."""

    def __init__(self, database: Database, folder: Path, *, say: Callable[[str], None]) -> None:
        self.database, self.say = database, say
        self.home, self.signs, self.folder = folder / "rs", folder / "signs", folder
        self.killed: Counter[str] = Counter()
        self.ended = 0
        self._from = 0

    def done(self, seed: int, count: int, kills: Sequence[Kill]) -> Result:
        """Go through it, and check what it left."""
        began = time.monotonic()
        with self.database.server as server:
            url = server.create_database()
            self.database.prepare(url)
            arguments = ("tests.changes.program", self.database.kind, url, self.home, self.signs)
            program = Program("mirror", arguments, self.folder, self.signs)
            writers = Writers(self.database, url, seed, count, len(kills), self._begun)
            try:
                self._write(program, writers, kills)
                self._finish(program)
            finally:
                program.kill()
            changes, places = (outputs := Outputs(self.home)).changes()
            seen = Seen(
                changes, places, self.database.journal(url), self.database.table(url), outputs.mirror(),
                outputs.history(),
            )  # fmt: skip
        ops = Counter(change.op for change in changes)
        sizes = (len(seen.mirror), len(seen.history), time.monotonic() - began)
        return Result(tuple(faults(seen)), writers.outcomes, ops, self.killed, self.ended, *sizes)

    def _write(self, program: Program, writers: Writers, kills: Sequence[Kill]) -> None:
        began = time.monotonic()
        with writers.writing() as written:
            self._start(program)
            for number, kill in enumerate(kills, 1):
                self._one(program, kill)
                writers.killed()
                self.say(f"{number}/{len(kills)} {time.monotonic() - began:.0f} s: {kill}, {dict(writers.outcomes)}")
        for each in written:
            each.result()

    def _begun(self) -> bool:
        """Whether rows land, whose fields are then known for good."""
        return any(self.home.glob(f"checkpoints/*/*/{FOLDER}/*/*/{OWNER}"))

    def _start(self, program: Program) -> None:
        self._from = _size(self.signs)
        program.start("go")

    def _one(self, program: Program, kill: Kill) -> None:
        if kill.steps:
            self._until(program, lambda: _size(self.signs) >= self._from + kill.steps)
        at = time.monotonic() + kill.after_s
        self._until(program, lambda: time.monotonic() >= at)
        self.killed[kill.victim] += 1
        self._from = _size(self.signs)
        if kill.victim != "server":
            program.kill()
        if kill.victim != "pipeline":
            self.database.server.kill()
            self.database.server.start()
        if kill.victim != "server":
            self._start(program)

    def _until(self, program: Program, done: Callable[[], bool]) -> None:
        deadline, ends = time.monotonic() + PATIENCE_S, 0
        while not done():
            if program.code is not None:
                self.ended += 1
                ends += 1
                assert ends <= ENDS, f"it ends again and again: {program.told()}"
                self.say(f"the pipeline ended by itself: {program.told()[-400:]}")
                self._start(program)
            assert time.monotonic() < deadline, f"nothing goes on: {program.told()}"
            time.sleep(LOOK_S)

    def _finish(self, program: Program) -> None:
        program.kill()
        program.start("finish")
        deadline = time.monotonic() + PATIENCE_S
        while program.code is None:
            assert time.monotonic() < deadline, f"it does not end: {program.told()}"
            time.sleep(LOOK_S)
        assert program.code == 0, program.told()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
