"""A small model of the runs of one stream: starts, stops, kills, the lease, and a recovery that looks now and then.

What is decided is decided by the product's own function (`verdict.judge`). Times are ranks, so that worlds that differ
only in how long something took are one. Dagster sees at once, or never, that the process of a run which it launched is
gone; a run of a terminal is found to be gone at any time later. Recovery looks before a batch run takes the lease of a
dead process, and plain Python writes its word as soon as it has the lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rs_assets.catalog.desired_state import DesiredState
from rs_assets.dagster.sensors.verdict import End, Kind, Ran, Verdict, judge

NOBODY, BATCH = -1, -2
# dagster: launched by it. terminal: by a person, and recorded. plain: Python, which Dagster does not know.
KINDS = ("dagster", "terminal", "plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the product goes by; the tests leave out one after the other."""

    busy_is_nothing: bool = True  # a start that was refused as busy decides nothing
    word: bool = True  # the file of the last word is read
    answers: bool = True  # a run that recovery asked for begins only if the last word is still the same
    waits: bool = True  # nothing is asked for while a run goes on or begins
    last_ended: bool = True  # the run that ended last decides, and not the one that began last


class Run(NamedTuple):
    """One run: where it is, what Dagster knows of its end, and what it was asked for."""

    kind: str
    at: str = "begins"  # begins, leased, holds, drains, over
    began: int = 0
    ended: int = 0  # as Dagster has it; 0: it goes on
    died: int = 0  # the last heartbeat of one that was killed while it held the lease
    end: Kind | None = None  # as Dagster has it
    recovers: int = NOBODY
    fresh: bool = True  # no word was said since it was asked for


class Word(NamedTuple):
    """The last word on the stream."""

    run: int
    stopped: bool
    since: int
    at: int


class World(NamedTuple):
    """Everything there is. `wished` is the truth: whether recovery is to start the stream again when nobody runs it."""

    runs: tuple[Run, ...] = ()
    holder: int = NOBODY
    word: Word | None = None
    asked: int = NOBODY  # the run that recovery asked to follow, and that Dagster has not launched yet
    asked_fresh: bool = True
    handled: tuple[int, int] | None = None
    wished: bool = False
    stopped_at: int = 0
    starts: int = 3
    stops: int = 2
    kills: int = 2
    batches: int = 1

    @property
    def now(self) -> int:
        """A time behind all others."""
        word = (self.word.since, self.word.at) if self.word is not None else ()
        times = (t for run in self.runs for t in (run.began, run.ended, run.died))
        return 1 + max((0, self.stopped_at, *word, *times))

    def with_run(self, number: int, **facts: object) -> World:
        """This world with other facts of a run."""
        run = self.runs[number]._replace(**facts)
        return self._replace(runs=(*self.runs[:number], run, *self.runs[number + 1 :]))

    def said(self, word: Word) -> World:
        """This world behind another word: what recovery asked for before is not wished for any more."""
        runs = tuple(
            run._replace(fresh=False) if run.recovers != NOBODY and run.at == "begins" else run for run in self.runs
        )
        return self._replace(word=word, runs=runs, asked_fresh=False)


Step = tuple[str, World]


def steps(world: World, rules: Rules) -> Iterator[Step]:
    """Every step that may be next, by a name that says what happens."""
    yield from ((name, _ranked(after)) for name, after in _steps(world, rules))


def _steps(world: World, rules: Rules) -> Iterator[Step]:
    if world.starts:
        for kind in KINDS:
            yield f"a person starts it ({kind})", _started(world, kind)._replace(starts=world.starts - 1)
    for number, run in enumerate(world.runs):
        yield from ((f"run {number} {name}", after) for name, after in PARTS[run.at](world, number, run, rules))
    if world.batches and world.holder == NOBODY:
        yield (
            "a batch run begins",
            world._replace(holder=BATCH, batches=world.batches - 1),
        )
    if world.holder == BATCH:
        yield "the batch run ends", world._replace(holder=NOBODY)
    yield from _recovery(world, rules)


def _started(world: World, kind: str, recovers: int = NOBODY, *, fresh: bool = True) -> World:
    run = Run(kind, began=world.now, recovers=recovers, fresh=fresh)
    return world._replace(runs=(*world.runs, run))


def _begins(world: World, number: int, run: Run, rules: Rules) -> Iterator[Step]:
    if _is_free(world):
        stale = rules.answers and run.recovers != NOBODY and (not run.fresh or _was_stopped(world, number, rules))
        yield from (
            [("finds another word and ends", _refused(world, number))]
            if stale
            else [("takes the lease", _taken(world, number))]
        )
    else:
        yield "is refused: another one goes on", _refused(world, number)
    if world.stops:
        stopped = world._replace(stops=world.stops - 1)
        yield "is stopped while it begins", _over(stopped, number, "stopped")
    if world.kills:
        yield "is killed while it begins", _over(world._replace(kills=world.kills - 1), number, "failed")


def _taken(world: World, number: int) -> World:
    """The lease is another one's. Of a dead run of a terminal nobody knows any more when it ended."""
    taken = world.with_run(number, at="leased")._replace(holder=number)
    dead = world.runs[world.holder] if world.holder >= 0 else None
    word = world.word
    if dead is not None and word is not None and word.run == world.holder:
        # What the lease told of the end of the stream is kept.
        return taken if word.stopped else taken._replace(word=word._replace(at=max(word.at, dead.died)))
    if dead is None or (dead.ended and dead.kind == "dagster") or dead.began > world.stopped_at:
        return taken
    others = (run for run in world.runs if run is not dead and run.recovers == NOBODY)
    return taken._replace(wished=any(run.end == "failed" and run.ended > world.stopped_at for run in others))


def _leased(world: World, number: int, run: Run, _: Rules) -> Iterator[Step]:
    now = world.now
    begun = world.with_run(number, at="holds").said(Word(number, stopped=False, since=now, at=now))
    # A stream that Dagster does not know is nobody's to start again.
    yield "writes that it goes on", begun._replace(wished=run.kind != "plain")
    if run.kind == "plain":
        return
    if world.stops:
        stopped = world._replace(stops=world.stops - 1)
        yield "is stopped behind the lease", _over(stopped, number, "stopped")
    if world.kills:
        # The lease tells it.
        ended = world.now if run.kind == "dagster" else 0
        killed = world.with_run(number, at="over", died=world.now, ended=ended, end="failed")
        wished = world.wished or (run.recovers == NOBODY and run.kind != "plain")
        yield "is killed behind the lease", killed._replace(kills=world.kills - 1, wished=wished)


def _holds(world: World, number: int, run: Run, _: Rules) -> Iterator[Step]:
    assert world.word is not None
    if world.stops:
        word, now = world.word, world.now
        said = world.said(word._replace(stopped=True, at=now))._replace(wished=False, stopped_at=now)
        yield "is told to stop", said.with_run(number, at="drains")._replace(stops=world.stops - 1)
    if world.kills:
        fewer = world._replace(kills=world.kills - 1, wished=run.kind != "plain")
        if run.kind == "plain":
            fewer = fewer._replace(stopped_at=world.now)
        # Dagster sees it at once, or never.
        yield "is killed", fewer.with_run(number, at="over", died=world.now)
        if run.kind == "dagster":
            yield "is killed and seen", fewer.with_run(number, at="over", ended=world.now, end="failed")
        if run.kind != "plain":
            failed = fewer.with_run(number, at="over", ended=world.now, end="failed")
            yield "fails", failed._replace(holder=NOBODY)


def _drains(world: World, number: int, run: Run, _: Rules) -> Iterator[Step]:
    ended = world.with_run(number, at="over", ended=0 if run.kind == "plain" else world.now, end="ended")
    yield "has drained", ended._replace(holder=NOBODY)
    if world.kills:
        killed = world.with_run(number, at="over", died=world.now)
        yield "is killed while it drains", killed._replace(kills=world.kills - 1)


def _over_already(world: World, number: int, run: Run, _: Rules) -> Iterator[Step]:
    if not run.ended and run.kind == "terminal":
        # It is marked as lost then: that says nothing of when it ended.
        yield "is found to be gone", world.with_run(number, ended=max(run.began, 1), end=run.end or "failed")


PARTS = {"begins": _begins, "leased": _leased, "holds": _holds, "drains": _drains, "over": _over_already}


def _refused(world: World, number: int) -> World:
    return world.with_run(number, at="over", ended=world.now, end="busy")


def _over(world: World, number: int, end: Kind) -> World:
    """The end of a run that had not written yet that it goes on."""
    run = world.runs[number]
    seen = end == "stopped" or run.kind == "dagster"
    # Of one at a terminal it is known that its process is gone, and not since when.
    ended = world.now if seen else run.began
    heard = run.kind != "plain" and (run.recovers == NOBODY or end == "stopped")
    heard &= seen or run.began > world.stopped_at
    wished = (end == "failed") if heard else world.wished
    after = world.with_run(number, at="over", ended=ended, end=end)._replace(wished=wished)
    if heard and end == "stopped":
        after = after._replace(stopped_at=world.now)
    return after._replace(holder=NOBODY if world.holder == number else world.holder)


def _was_stopped(world: World, number: int, rules: Rules) -> bool:
    """Whether a run that recovery asked for finds, with the lease in hand, that somebody has stopped the stream."""
    gone = world.with_run(number, at="over", ended=world.now, end="busy")._replace(holder=NOBODY)
    # By its tags it knows when the one ended that it follows.
    follows = world.runs[number].recovers
    if world.runs[follows].died:
        gone = gone.with_run(follows, ended=world.runs[follows].died, end="failed")
    others = tuple(r if r.at == "over" else r._replace(at="over", end="busy", ended=world.now) for r in gone.runs)
    return told(gone._replace(runs=others), rules).end == "stopped"


def _is_free(world: World) -> bool:
    """Whether the lease may be taken: nobody has it, or a process that is dead."""
    return world.holder == NOBODY or (world.holder >= 0 and world.runs[world.holder].at == "over")


# Recovery.


def _recovery(world: World, rules: Rules) -> Iterator[Step]:
    if world.asked != NOBODY:
        launched = _started(world, "dagster", world.asked, fresh=world.asked_fresh)
        yield "Dagster launches what recovery asked for", launched._replace(asked=NOBODY)
        return
    verdict = told(world, rules)
    if verdict.act != "restart" or len(world.runs) >= 5:
        return
    number = int(verdict.run_id)
    handled = (number, sum(run.recovers == number for run in world.runs))
    if handled != world.handled:
        yield (
            f"recovery asks for a run behind {number}",
            world._replace(asked=number, asked_fresh=True, handled=handled),
        )


def told(world: World, rules: Rules) -> Verdict:
    """What the product says of this world."""
    word = world.word if rules.word else None
    wish = None
    if word is not None:
        wish = DesiredState(run_id=str(word.run), stopped=word.stopped, since=word.since, at=word.at, id="now")
    known = {str(number): run for number, run in enumerate(world.runs) if run.kind != "plain"}
    heard = [
        str(number) for number, run in enumerate(world.runs) if run.kind != "plain" or str(number) == word_of(wish)
    ]
    runs = [_ran(world, name, world.runs[int(name)], rules) for name in heard]
    alive = world.holder == BATCH or (world.holder >= 0 and world.runs[world.holder].at != "over")
    if not rules.waits:
        runs, alive = [run for run in runs if run.ended is not None], False

    def end_of(ran: Ran) -> End:
        if ran.run_id not in known:
            return End(kind="ended", why="Dagster does not know it")
        end = known[ran.run_id].end or "failed"
        return End(kind="failed" if end == "busy" and not rules.busy_is_nothing else end, why=end)

    return judge(wish, runs, end_of, holder=str(world.holder) if alive else "")


def word_of(wish: DesiredState | None) -> str:
    """The run that the last word is about; empty without one."""
    return wish.run_id if wish is not None else ""


def _ran(world: World, name: str, run: Run, rules: Rules) -> Ran:
    lost = run.at == "over" and not run.ended
    held = run.died if world.holder == int(name) else 0
    ended = max(run.began, held) if lost else held or run.ended or None
    if ended is not None and not rules.last_ended:
        ended = run.began
    asked_for = run.recovers != NOBODY
    return Ran(run_id=name, began=run.began, ended=ended, asked_for=asked_for)


def _ranked(world: World) -> World:
    """The same world with the smallest numbers for its times that keep their order."""
    word = world.word
    times = {0, world.stopped_at, *(t for run in world.runs for t in (run.began, run.ended, run.died))}
    times |= {word.since, word.at} if word is not None else set()
    rank = {time: place for place, time in enumerate(sorted(times))}
    runs = tuple(run._replace(began=rank[run.began], ended=rank[run.ended], died=rank[run.died]) for run in world.runs)
    if word is not None:
        word = word._replace(since=rank[word.since], at=rank[word.at])
    return world._replace(runs=runs, word=word, stopped_at=rank[world.stopped_at])
