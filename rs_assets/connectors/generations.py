"""Generations and their starting points: where a return (a rewind or a restore) went back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

# A batch after all others.
LAST = 1 << 62


class Point(NamedTuple):
    """The end of a batch of a generation."""

    generation: int
    batch: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """`returns` maps each generation that began by a return to the point that it went back to.

    >>> lineage = Lineage({2: Point(1, 5), 3: Point(2, 7)})
    >>> lineage.path(Point(3, 9))
    {3: 9, 2: 7, 1: 5}
    >>> lineage.path(Point(2, 4))
    {1: 4}
    """

    returns: Mapping[int, Point]

    def path(self, point: Point) -> dict[int, int]:
        """The generations on the path to `point`, newest first, each with its last valid batch."""
        found: dict[int, int] = {}
        generation, batch = point
        while True:
            began = self.returns.get(generation)
            if began is None:
                return {**found, generation: batch}
            if batch > began.batch:
                found[generation] = batch
            generation, batch = began.generation, min(batch, began.batch)

    def unchanged(self, point: Point) -> list[Point]:
        """The points with the content of `point`: itself, and those that its generations began from and added nothing.

        >>> Lineage({2: Point(1, 5), 3: Point(2, 7)}).unchanged(Point(3, 7))
        [Point(generation=3, batch=7), Point(generation=2, batch=7)]
        """
        found, here = [], point
        while True:
            found.append(here)
            began = self.returns.get(here.generation)
            if began is None or began.batch != here.batch:
                return found
            here = began
