"""User-defined functions over the rows of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rs_assets.common.node import Node
from rs_assets.topology.user_code.expression import PythonFunction, Record

Records = list[Record]


@runtime_checkable
class Accumulator(Protocol):
    """A user-defined aggregate; its methods may change nothing but the accumulator that they get."""

    def create(self) -> Any:
        """The accumulator before the first row."""

    def accumulate(self, accumulator: Any, row: Record) -> Any:
        """The accumulator with one row more; it may be the same object."""

    def value(self, accumulator: Any) -> Any:
        """The fields of the result."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A function of its previous result (None before the first row) and of a row."""

    function: Callable[[Any, Record], Any]

    def __call__(self, rows: Records) -> Any:
        """The result for the last row."""
        made: Any = None
        for row in rows:
            made = self.function(made, row)
        return made


@dataclass(frozen=True, slots=True)
class Accumulated:
    """An accumulator over all rows."""

    accumulator: Accumulator

    def __call__(self, rows: Records) -> Any:
        """The value after all rows."""
        made = self.accumulator.create()
        for row in rows:
            made = self.accumulator.accumulate(made, row)
        return self.accumulator.value(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Node):
    """Puts into a window's row the fields `made` that `function` computes of its rows, which are in the field `rows`.

    The field `rows` is dropped. No state depends on the function: the rows are in state as they came.
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
