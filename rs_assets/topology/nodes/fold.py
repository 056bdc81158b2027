"""What users' own functions make of the rows of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rs_assets.topology.nodes.base import Node
from rs_assets.topology.user_code.expression import PythonFunction, Record

Records = list[Record]


@runtime_checkable
class Accumulator(Protocol):
    """An aggregate of the user's own; none of its methods may change anything but the accumulator that it gets."""

    def create(self) -> Any:
        """The accumulator before the first row."""

    def accumulate(self, accumulator: Any, row: Record) -> Any:
        """The accumulator with one row more; it may be the same object."""

    def value(self, accumulator: Any) -> Any:
        """The fields of the result."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A function of what it returned for the rows before (None before the first) and of a row."""

    function: Callable[[Any, Record], Any]

    def __call__(self, rows: Records) -> Any:
        """What it returns for the last row."""
        made: Any = None
        for row in rows:
            made = self.function(made, row)
        return made


@dataclass(frozen=True, slots=True)
class Accumulated:
    """An accumulator over all rows."""

    accumulator: Accumulator

    def __call__(self, rows: Records) -> Any:
        """Its value in the end."""
        made = self.accumulator.create()
        for row in rows:
            made = self.accumulator.accumulate(made, row)
        return self.accumulator.value(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Node):
    """Puts into a window's row the fields `made` that `function` makes of its rows, which stand in the field `rows`.

    The field goes. No state depends on it: the rows are in state, as they came.
    """

    function: PythonFunction
    made: tuple[str, ...]
    rows: str

    def detail(self) -> str:
        """The fields."""
        return f"{', '.join(self.made)} of the rows of {self.inputs[0]}"

    def identity(self) -> tuple[str, ...]:
        """The code."""
        return (self.function.identity(),)
