"""The commands of a campaign: their words, the code they run with, and what must hold once they have succeeded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from tests.torture.commands.plain import Code, Known, Pages
from tests.torture.commands.shell import Started
from tests.torture.commands.shop import Batch, hour_of, last_batches, page, partition
from tests.torture.history import Finding

NAME = "pages"
KEYS = ("--keys", "page,start_time")
# The queries that are rewound, and what the model calls them.
PART: Mapping[str, str] = MappingProxyType({"raw_copy": "copy", "window": "windows"})
# A `try` compares so many of the newest partitions.
TRIED = 24
# The digest of code that was not tried yet.
DIGEST = "DIGEST"

Done = Callable[[Started], None]


@dataclass(frozen=True, slots=True)
class Command:
    """What is called, and `done`: what the model does then, and what must be in the output."""

    words: tuple[str, ...]
    code: Code
    done: Done


@dataclass(frozen=True, slots=True)
class Saved:
    """What was known at a savepoint, and the last batch of each query then."""

    known: Known
    batches: Mapping[str, Batch]


@dataclass(slots=True)
class Past:
    """What a campaign may go back to: savepoints, and what was known after batches of a query.

    All later batches follow the savepoints that are `followed`.
    """

    savepoints: dict[str, Saved] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)
    batches: dict[tuple[str, int], Known] = field(default_factory=dict)

    def kept(self, known: Known, batches: Mapping[str, Batch]) -> None:
        """Rows were rewritten after these batches: savepoints of the same ones have them, too."""
        for name, saved in self.savepoints.items():
            parts = {
                PART[query]: getattr(known, PART[query]) for query in PART if saved.batches[query] == batches[query]
            }
            self.savepoints[name] = replace(saved, known=replace(saved.known, **parts))

    def forget(self) -> None:
        """Nothing of it is left."""
        self.savepoints.clear()
        self.followed.clear()
        self.batches.clear()


@dataclass(slots=True)
class Site:
    """What operations are drawn from: the model, the past and the code of today."""

    chance: random.Random
    home: Path
    pages: Pages = field(default_factory=Pages)
    past: Past = field(default_factory=Past)
    code: Code = field(default_factory=Code)
    folders: int = 0


def answer(started: Started) -> object:
    """The JSON that a command printed at its end."""
    lines = [line for line in started.said.splitlines() if line.startswith(("{", "["))]
    if not lines:
        message = f"no JSON: {started.log}"
        raise Finding(message)
    return json.loads(lines[-1])


def demand(have: object, want: object, what: str, started: Started) -> None:
    """A Finding unless both are equal."""
    if have != want:
        message = f"{what}: {have} and not {want}: {started.log}"
        raise Finding(message)


def run(site: Site) -> Command:
    return Command(("run", NAME), site.code, _nothing)


def compact(site: Site) -> Command:
    return Command(("compact",), site.code, _nothing)


def backfill(site: Site) -> Command | None:
    """Some closed hours, with all late records or without."""
    pages, closed = site.pages, site.pages.closed()
    if not closed:
        return None
    first = site.chance.choice(closed)
    last = site.chance.choice([hour for hour in closed if hour >= first])
    judge = site.chance.choice(["all", "as_then"])
    words = ("backfill", NAME, "--partition", partition(first), "--to", partition(last), "--judge", judge)
    hours = [hour for hour in closed if first <= hour <= last]

    def done(_: Started) -> None:
        pages.backfill(hours, site.code, late=judge == "all")
        site.past.kept(pages.now, last_batches(site.home, PART))

    return Command(words, site.code, done)


def try_(site: Site) -> Command | None:
    """The code of today or another one over the newest partitions."""
    if not site.pages.closed():
        return None
    other = site.code._replace(factor=site.code.factor + site.chance.randint(0, 1))
    return tried(site, other)


def tried(site: Site, code: Code) -> Command:
    """This code over the newest partitions: it changes the rows whose factor is another one."""
    words = ("try", NAME, "--json", *KEYS)
    if site.chance.random() < 0.5:
        words = (*words, "--into", _folder(site))

    def done(started: Started) -> None:
        found = answer(started)
        changed = site.pages.others(code, site.pages.closed()[-TRIED:])
        have = [found[name] for name in ("only_before", "only_after", "changed")]
        demand(have, [0, 0, changed], "rows that a try changes", started)

    return Command(words, code, done)


def try_since(site: Site) -> Command | None:
    """Another factor from a savepoint on: windows that had closed by then are those of the table then."""
    if not site.pages.closed() or not site.past.followed:
        return None
    chosen = site.chance.choice(sorted(site.past.followed))
    code = site.code._replace(factor=site.code.factor + site.chance.randint(0, 1))

    def done(started: Started) -> None:
        found, before = answer(started), site.pages.windows_of(site.pages.closed()[-TRIED:])
        after = site.pages.since(site.past.savepoints[chosen].known, code).windows_of(site.pages.closed()[-TRIED:])
        want = [len(before.keys() - after.keys()), len(after.keys() - before.keys())]
        want.append(sum(before[key] != after[key] for key in before.keys() & after.keys()))
        demand([found[name] for name in ("only_before", "only_after", "changed")], want, f"since {chosen}", started)

    return Command(("try", NAME, "--json", *KEYS, "--savepoint", chosen), code, done)


def prove(site: Site) -> Command | None:
    """All closed hours."""
    closed = site.pages.closed()
    if not closed:
        return None
    words = ("prove", NAME, "--json", "--partition", partition(closed[0]), "--to", partition(closed[-1]))
    return Command(words, site.code, lambda started: _proved(site, started))


def _proved(site: Site, started: Started) -> None:
    for each in answer(started):
        hour, records = hour_of(each["partition"]), each["records"]
        counted, late = site.pages.in_hour(hour)
        parts = sum(records[name] for name in ("used", "dead", "late", "filtered", "waiting", "elsewhere"))
        have = (
            each["equal"],
            records["used"],
            records["late"] >= late,
            parts,
            records["miscounted"],
            records["unaccounted"],
        )
        equal = site.pages.factors_of(hour) <= {site.code.factor}
        demand(have, (equal, counted, True, records["rows_in"], [], 0), f"the proof of {each['partition']}", started)


def promote(site: Site) -> Command | None:
    """Code with another factor, for all closed hours, too. Its digest is `DIGEST` until it was tried."""
    closed = site.pages.closed()
    if not closed:
        return None
    new = site.code._replace(factor=site.code.factor + 1)
    words = ("promote", NAME, "--code", DIGEST, "--rewrite-from", partition(closed[0]))
    return Command(words, new, lambda _: _promoted(site, new))


def _promoted(site: Site, new: Code) -> None:
    site.code = new
    site.pages.backfill(site.pages.closed(), new, late=False)
    site.past.kept(site.pages.now, last_batches(site.home, PART))


def redrive(site: Site) -> Command | None:
    """All that strict code refused."""
    if not site.pages.now.copy.refused:
        return None
    words = ("redrive", NAME, "--where", "step = 'usual'", "--json")

    def done(_: Started) -> None:
        site.pages.redrive()
        site.past.kept(site.pages.now, last_batches(site.home, PART))

    return Command(words, site.code, done)


def savepoint(site: Site) -> Command:
    def done(started: Started) -> None:
        saved = Saved(site.pages.now, last_batches(site.home, PART))
        name = answer(started)[0]["savepoint"]
        site.past.savepoints[name] = saved
        site.past.followed.add(name)

    return Command(("savepoint", NAME, "--json"), site.code, done)


def restore(site: Site) -> Command | None:
    """Everything back to a savepoint."""
    if not site.past.savepoints:
        return None
    chosen = site.chance.choice(sorted(site.past.savepoints))

    def done(_: Started) -> None:
        site.pages.now = site.past.savepoints[chosen].known
        site.past.followed.clear()
        site.past.batches.clear()

    return Command(("restore", NAME, chosen), site.code, done)


def rewind(site: Site) -> Command | None:
    """One query back to one of its last batches."""
    if not site.past.batches:
        return None
    query, batch = site.chance.choice(sorted(site.past.batches)[-8:])

    def done(_: Started) -> None:
        known = site.past.batches[query, batch]
        site.past.followed.clear()
        site.pages.back(**{PART[query]: getattr(known, PART[query])})
        site.past.batches = {key: each for key, each in site.past.batches.items() if key[0] != query or key[1] <= batch}

    return Command(("rewind", NAME, "--step", query, "--to", str(batch)), site.code, done)


def rescale(site: Site) -> Command:
    """Another number of partitions of the state; batches before it cannot be gone back to."""
    words = ("rescale", NAME, "--partitions", str(site.chance.randint(1, 4)))

    def done(_: Started) -> None:
        site.past.followed.clear()
        site.past.batches.clear()

    return Command(words, site.code, done)


def capture(site: Site) -> Command:
    """A recorded batch as a test."""
    words = ("capture", NAME, "--sink", site.chance.choice(["totals_table", "copy_table"]), "--into", _folder(site))
    return Command(words, site.code, _nothing)


def forget(site: Site) -> Command:
    """The rows of a page; what was before it cannot be gone back to."""
    gone = page(site.chance)

    def done(_: Started) -> None:
        site.pages.forget(gone)
        site.past.forget()

    return Command(("forget", NAME, f"page={gone}", "--savepoints", "remove", "--yes"), site.code, done)


def _folder(site: Site) -> str:
    """A new folder for what a command writes."""
    site.folders += 1
    return f"written-{site.folders}"


def _nothing(_: Started) -> None:
    """It changes no row."""


Draw = Callable[[Site], Command | None]

# While a stream runs, and while none does; a name that comes twice is drawn twice as often.
WITH_STREAM: tuple[Draw, ...] = (
    *(backfill, try_, try_since, promote, redrive, prove),
    *(savepoint, rescale, compact, capture),
)
WITHOUT_STREAM: tuple[Draw, ...] = (
    *(promote, restore, rewind, forget) * 2,
    *(redrive, backfill, rescale, try_since),
)
# What may run at the same time, by what it changes: no row of the model.
AT_ONCE: Mapping[Draw, Draw] = MappingProxyType(
    {
        run: try_,
        forget: prove,
        rescale: savepoint,
        savepoint: rescale,
        compact: prove,
        try_: prove,
        **dict.fromkeys((backfill, redrive, prove, promote), compact),
    }
)
