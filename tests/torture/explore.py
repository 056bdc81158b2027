"""Explores every interleaving of the protocol model up to a depth.

Breadth first: a fault that is found comes with a shortest schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.torture.model_protocol import DONE, IDLE, RECORDS, REFUSED_HALF_WAY, Rules, World, steps

EVERYTHING = tuple(range(RECORDS))


@dataclass(frozen=True, slots=True)
class Fault:
    """A promise that was broken, and the steps that led to it."""

    what: str
    schedule: tuple[str, ...]

    def __str__(self) -> str:
        """One step a line."""
        return "\n".join((self.what, *self.schedule))


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was looked at: `states` are different worlds, `depth` is the longest schedule, `settled` were ended."""

    states: int
    depth: int
    settled: int
    fault: Fault | None = None


def explore(rules: Rules, depth: int, start: World | None = None) -> Explored:
    """Visit each world that at most `depth` steps lead to; ends at the first fault."""
    start = start or World()
    came: dict[World, tuple[World, str] | None] = {start: None}
    level, settled, reached = [start], 0, 0
    while level and reached < depth:
        reached += 1
        following = []
        for world in level:
            for name, after in steps(world, rules):
                what = broken(world, name, after)
                if what:
                    return Explored(len(came), reached, settled, Fault(what, (*_schedule(came, world), name)))
                if after in came:
                    continue
                came[after] = (world, name)
                following.append(after)
                if all(driver == IDLE for driver in after.drivers):
                    settled += 1
                    if not settles(after, rules):
                        return Explored(len(came), reached, settled, Fault("cannot go on", _schedule(came, after)))
        level = following
    return Explored(len(came), reached, settled)


def broken(before: World, name: str, after: World) -> str | None:
    """The promise that a step breaks, None if it breaks none."""
    for sink, table in enumerate(after.tables):
        rows = table[-1].rows
        if rows != EVERYTHING[: len(rows)]:
            return f"sink {sink} has the rows {list(rows)}"
    if name.endswith(REFUSED_HALF_WAY):
        return "a return was refused after it had changed a sink"
    number = int(name[0])
    driver = before.drivers[number]
    whole = all(table[-1].rows == EVERYTHING for table in after.tables)
    if driver.job == "run" and name.endswith(DONE) and before.token == driver.token and not whole:
        return "a run has ended well, and rows are missing"
    return None


def ran() -> World:
    """The world after a first run that read everything, one record a batch."""
    rules = Rules()
    begun = next(after for name, after in steps(World(), rules) if name == "0:begins to run")
    return _to_end(begun, rules)[0]


def settles(world: World, rules: Rules) -> bool:
    """Whether a person who follows the remedies gets everything: run; if refused, go back as far as it must be."""
    quiet = world._replace(kills=0, naps=0, returns=0)
    if _runs(quiet, rules):
        return True
    for name, after in steps(quiet._replace(returns=1), rules):
        if "begins to re" in name and name.startswith("0:"):
            back, done = _to_end(after, rules)
            if done and _runs(back._replace(returns=0), rules):
                return True
    return False


def _runs(world: World, rules: Rules) -> bool:
    begun = next(after for name, after in steps(world, rules) if name == "0:begins to run")
    after, done = _to_end(begun, rules)
    return done and all(table[-1].rows == EVERYTHING for table in after.tables)


def _to_end(world: World, rules: Rules) -> tuple[World, bool]:
    """The world behind the driver's last step, if nothing else happens, and whether it ended well."""
    name = ""
    while world.drivers[0] != IDLE:
        name, world = next((name, after) for name, after in steps(world, rules) if name.startswith("0:"))
    return world, name.endswith(DONE)


def _schedule(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    return tuple(reversed(list(_back(came, world))))


def _back(came: dict[World, tuple[World, str] | None], world: World) -> Iterator[str]:
    while (step := came[world]) is not None:
        world, name = step
        yield name
