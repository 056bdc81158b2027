"""Searches all worlds that steps lead to, breadth first: a fault that is found comes with a shortest schedule."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

World = TypeVar("World", bound=Hashable)


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


@dataclass(frozen=True, slots=True)
class Model(Generic[World]):
    """What is searched.

    `steps` gives the names and worlds that may follow a world. `broken` is the promise that a step breaks, None if it
    breaks none. `ended` tells whether nothing goes on in a world, and `lacking` the promise that is broken there.
    """

    steps: Callable[[World], Iterable[tuple[str, World]]]
    broken: Callable[[World, str, World], str | None]
    ended: Callable[[World], bool]
    lacking: Callable[[World], str | None]


def search(model: Model[World], start: World, depth: int) -> Explored:
    """Visit each world that at most `depth` steps lead to from `start`; ends at the first fault."""
    came: dict[World, tuple[World, str] | None] = {start: None}
    level, settled, reached = [start], 0, 0
    while level and reached < depth:
        reached += 1
        following = []
        for world in level:
            for name, after in model.steps(world):
                what = model.broken(world, name, after)
                if what:
                    return Explored(len(came), reached, settled, Fault(what, (*_schedule(came, world), name)))
                if after in came:
                    continue
                came[after] = (world, name)
                following.append(after)
                if model.ended(after):
                    settled += 1
                    what = model.lacking(after)
                    if what:
                        return Explored(len(came), reached, settled, Fault(what, _schedule(came, after)))
        level = following
    return Explored(len(came), reached, settled)


def _schedule(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    names = []
    while (step := came[world]) is not None:
        world, name = step
        names.append(name)
    return tuple(reversed(names))
