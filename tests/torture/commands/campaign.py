"""Commands of a user, killed at moments of a seed; the tables are compared with plain Python after each.

The seed draws what is done; what a kill hits depends on the machine.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.processes import PATIENCE_S
from tests.torture.commands import operations
from tests.torture.commands.looks import LOOKS
from tests.torture.commands.operations import (
    AT_ONCE,
    DIGEST,
    NAME,
    PART,
    WITH_STREAM,
    WITHOUT_STREAM,
    Command,
    Draw,
    Site,
    answer,
)
from tests.torture.commands.plain import Code
from tests.torture.commands.shell import Shell, Started
from tests.torture.commands.shop import NO_BATCH, cuts, drawn, held, last_batches, put
from tests.torture.history import Finding

# After a kill of these only the same command helps, as a run says that comes between; others are as if never begun.
DECISIVE = (operations.restore, operations.rewind, operations.forget, operations.promote)
# A run between kill and repetition leaves open which rows these have changed.
HALF_DONE = (*DECISIVE, operations.redrive, operations.backfill)
# A rewind or restore to before a rescale is refused.
MAY_BE_REFUSED = (operations.restore, operations.rewind)


@dataclass(slots=True)
class Campaign:
    """A home, the model of its tables, and a stream that may run."""

    shell: Shell
    site: Site
    stream: Started | None = None
    checks: int = 0
    done: int = 0
    refused: int = 0
    digests: dict[Code, str] = field(default_factory=dict)

    @property
    def chance(self) -> random.Random:
        return self.shell.chance

    # Input and checks.

    def grow(self) -> None:
        """One file more."""
        pages = self.site.pages
        file = drawn(self.chance, pages.files, pages.watermark)
        put(self.shell.root, len(pages.files), file, self.chance)
        pages.files.append(file)

    def difference(self) -> str:
        """What the tables hold too much, and lack."""
        self.site.pages.cut(cuts(self.shell.home))
        have, want = held(self.shell.home), self.site.pages.tables()
        return "; ".join(
            f"{name}: {len(have[name])} rows, lacks {[row for row in rows if row not in have[name]][:5]}, "
            f"too many {[row for row in have[name] if row not in rows][:5]}"
            for name, rows in want.items()
            if have[name] != rows
        )

    def check(self, when: str) -> None:
        """The tables equal the model; what is known now can be gone back to."""
        self.checks += 1
        wrong = self.difference()
        if wrong:
            message = f"after {when}: {wrong}"
            raise Finding(message)
        for query, batch in last_batches(self.shell.home, PART).items() if self.stream is None else ():
            if batch.number != NO_BATCH:
                self.site.past.batches[query, batch.number] = self.site.pages.now

    def settle(self) -> None:
        """All that is there is read, by the stream or by a run."""
        self.site.pages.read(self.site.code)
        if self.stream is None:
            self.must(Command(("run", NAME), self.site.code, lambda _: None))
        deadline = time.monotonic() + PATIENCE_S
        while self.stream is not None and self.stream_runs() and time.monotonic() < deadline and self.difference():
            time.sleep(0.2)
        self.check("all was read")

    def stream_runs(self) -> bool:
        """True; a Finding if the stream has ended by itself."""
        if self.stream is not None and self.stream.process.poll() is not None:
            message = f"the stream has ended: {self.stream.log}"
            raise Finding(message)
        return True

    # Commands.

    def must(self, command: Command) -> Started:
        """Call it; a Finding unless it succeeds."""
        started = self.shell.start(*command.words, code=command.code)
        if self.shell.wait(started) != 0:
            message = (
                f"exit {started.process.returncode} of {' '.join(command.words)}: {started.log}: {started.said[-500:]}"
            )
            raise Finding(message)
        command.done(started)
        return started

    def draw(self, draw: Draw) -> Command | None:
        """A command; code that is promoted has been tried."""
        command = draw(self.site)
        if command is None or DIGEST not in command.words:
            return command
        if command.code not in self.digests:
            tried = self.must(operations.tried(self.site, command.code))
            self.digests[command.code] = answer(tried)["code"]
        words = tuple(self.digests[command.code] if word == DIGEST else word for word in command.words)
        return replace(command, words=words)

    def step(self) -> None:
        """Input comes, something is done, mostly killed and repeated, and all is compared."""
        self._before()
        draw = self.chance.choice((*(WITHOUT_STREAM if self.stream is None else WITH_STREAM), *LOOKS))
        if draw is operations.redrive and self.stream is None:
            self.strictly()
        command = self.draw(draw)
        if command is None:
            return
        self.shell.say(f"--- {draw.__name__}")
        self.done += 1
        done = self._killed(draw, command)
        if done is not None:
            command.done(done)
        if self.chance.random() < 0.5:
            self.grow()
        self.settle()

    def _before(self) -> None:
        if self.stream is None and self.chance.random() < 0.15:
            self.stream = self.shell.start("start", NAME, code=self.site.code)
        for _ in range(self.chance.choice((0, 1, 1, 2))):
            self.grow()
        if self.stream is None and self.chance.random() < 0.3:
            self.strictly()
        self.settle()
        if not self.site.past.savepoints and self.chance.random() < 0.5:
            self.must(operations.savepoint(self.site))

    def strictly(self) -> None:
        """A file is read by strict code."""
        self.grow()
        code = self.site.code._replace(strict=True)
        self.site.pages.read(code)
        self.must(Command(("run", NAME), code, lambda _: None))
        self.check("a run of strict code")

    def _killed(self, draw: Draw, command: Command) -> Started | None:
        """The process that has succeeded, the first or a repetition; None if it was refused, as it may be."""
        started = self.shell.start(*command.words, code=command.code)
        other = self._at_once(draw)
        share = self.chance.random() * 1.1
        result = self.shell.kill(started, share) if self.chance.random() < 0.85 else self.shell.wait(started)
        if self.stream is not None and self.chance.random() < 0.3:
            self.end_stream(killed=True)
        if other is not None:
            (self.shell.wait if self.chance.random() < 0.5 else lambda each: self.shell.kill(each, share))(other)
        if draw is operations.promote and self.stream is not None and self.stream.process.poll() is not None:
            self.stream = None
        self.stream_runs()
        if result == 0:
            return started
        if self.stream is None and self.chance.random() < 0.4:
            self._run_between(draw)
        return self._repeated(draw, command)

    def _at_once(self, draw: Draw) -> Started | None:
        """Another command that changes no row, a little later."""
        if draw not in AT_ONCE or self.chance.random() > 0.3:
            return None
        other = self.draw(AT_ONCE[draw])
        if other is None:
            return None
        if AT_ONCE[draw] is operations.rescale:
            self.site.past.followed.clear()
            self.site.past.batches.clear()
        time.sleep(self.chance.random() * 3)
        return self.shell.start(*other.words, code=other.code)

    def _run_between(self, draw: Draw) -> None:
        """A run after the kill, before the repetition: right, or refused with a remedy after what must be repeated."""
        if self.chance.random() < 0.5:
            self.grow()
        started = self.shell.start("run", NAME, code=self.site.code)
        if self.shell.wait(started) != 0:
            self.shell.say(f"a run after the kill of {draw.__name__}: {started.said[-500:]}")
            if draw not in DECISIVE:
                message = f"a run after the kill of {draw.__name__} fails: {started.log}"
                raise Finding(message)
            return
        if draw not in MAY_BE_REFUSED:
            self.site.pages.read(self.site.code)
        if draw not in HALF_DONE:
            self.check(f"a run after a kill of {draw.__name__}")

    def _repeated(self, draw: Draw, command: Command) -> Started | None:
        """The same command until it succeeds, killed once more in half of the cases."""
        for number in range(3):
            started = self.shell.start(*self._again(command, number), code=command.code)
            killed = number == 0 and self.chance.random() < 0.45
            result = self.shell.kill(started, self.chance.random()) if killed else self.shell.wait(started)
            if result == 0:
                return started
            if result is not None:
                self.shell.say(f"exit {result} of the repetition: {started.said[-700:]}")
                if draw in MAY_BE_REFUSED:
                    self.refused += 1
                    self.site.past.followed.clear()
                    return None
        message = f"cannot be repeated: {started.log}"
        raise Finding(message)

    @staticmethod
    def _again(command: Command, number: int) -> tuple[str, ...]:
        """Its words with another folder to write: that of the first one may be there."""
        into = "--into" in command.words[-2:]
        return (*command.words[:-1], f"{command.words[-1]}-{number}") if into else command.words

    def end_stream(self, *, killed: bool) -> None:
        """Stop the stream, or kill it."""
        if self.stream is None:
            return
        if killed:
            self.stream.kill()
            self.shell.kills += 1
            self.shell.say("killed the stream")
        else:
            self.stream.process.send_signal(signal.SIGINT)
            if self.stream.process.wait(timeout=PATIENCE_S) != 0:
                message = f"a stream that was stopped: exit {self.stream.process.returncode}: {self.stream.log}"
                raise Finding(message)
        self.stream = None

    def begin(self) -> None:
        """The first files."""
        self.grow()
        self.grow()
        self.settle()

    def finish(self) -> None:
        """The end of the input: all windows close, every partition is proven, the history is whole."""
        self.end_stream(killed=self.chance.random() < 0.5)
        self.grow()
        self.settle()
        self.must(Command(("run", NAME, "--finish"), self.site.code, lambda _: self.site.pages.finish(self.site.code)))
        self.check("the end")
        proof = operations.prove(self.site)
        if proof is not None:
            started = self.shell.start(*proof.words, code=proof.code)
            self.shell.wait(started)
            proof.done(started)
        self.must(Command(("audit", NAME), self.site.code, lambda _: None))


def commands(folder: Path, seed: int, steps: int) -> int:
    """One campaign; 1 if it had a finding."""
    root, began = folder / f"commands-{seed}", time.monotonic()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    chance = random.Random(seed)
    shell = Shell(root, chance, lambda line: print(f"{time.strftime('%H:%M:%S')} {line}", flush=True))
    campaign, finding = Campaign(shell, Site(chance, shell.home)), ""
    try:
        campaign.begin()
        for _ in range(steps):
            campaign.step()
        campaign.finish()
    except Finding as error:
        finding = str(error)
    finally:
        campaign.end_stream(killed=True)
    print(
        f"seed {seed}: {campaign.done} commands, {shell.kills} kills, {campaign.checks} comparisons, "
        f"{campaign.refused} refused, {time.monotonic() - began:.0f} s: {finding or 'right'}",
        flush=True,
    )
    return int(bool(finding))
