"""Something that people do to a pipeline, and the chances that say what exactly: numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Chances = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Act:
    """Something to do: `do` calls the product, `done` tells what must hold then. `again`: a killed one is repeated."""

    do: Callable[[], object]
    done: Callable[[], None]
    again: bool = False


def pick(chance: float, number: int) -> int:
    """A number below `number`, by a chance."""
    return min(int(chance * number), number - 1)
