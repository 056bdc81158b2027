"""Shuffles: how many partitions a stream is spread over, and by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pipelines.topology.base import Family, Node, positive
from resources.errors import TopologyError

Strategy = Literal["memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Node):
    """Spreads the rows over `partitions`, by the `keys` or evenly. `memory` is Spark's exchange inside the query."""

    family: ClassVar[Family] = "shuffle"

    partitions: int
    keys: tuple[str, ...] = ()
    strategy: Strategy = "memory"

    def __post_init__(self) -> None:
        """Refuse a number of partitions that is none."""
        Node.__post_init__(self)
        if not positive(self.partitions):
            raise TopologyError(f"step {self.name!r}: a shuffle needs a positive number of partitions")

    def detail(self) -> str:
        """Partitions and keys."""
        return f"{self.partitions} partitions" + (f" by {', '.join(self.keys)}" if self.keys else "")

    def identity(self) -> tuple[str, ...]:
        """Where a row is computed changes no result."""
        return ()
