"""User-defined functions over the rows of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rs_assets.common.node import Node
from rs_assets.records.encoded import decoded
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


@runtime_checkable
class Mergeable(Accumulator, Protocol):
    """One whose result depends neither on the order of rows nor on how they were divided: only accumulators are kept.

    Each row begins an accumulator of its own, and accumulators are merged.
    """

    def merge(self, one: Any, other: Any) -> Any:
        """The accumulator of the rows of both; it may be one of them."""


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


@dataclass(frozen=True, slots=True)
class MergedResults:
    """A function of its previous result and of a row, whose results `join` merges: they are the accumulators."""

    function: Callable[[Any, Record], Any]
    join: Callable[[Any, Any], Any]

    def create(self) -> None:
        """Before the first row there is no result."""

    def accumulate(self, accumulator: Any, row: Record) -> Any:
        """The result for one row more."""
        return self.function(accumulator, row)

    def merge(self, one: Any, other: Any) -> Any:
        """The result for the rows of both."""
        return self.join(one, other)

    def value(self, accumulator: Any) -> Any:
        """The result itself."""
        return accumulator


@dataclass(frozen=True, slots=True)
class ValueOf:
    """The value of an accumulator that a window has kept."""

    accumulator: Mergeable

    def __call__(self, kept: bytes | None) -> Any:
        """The value; None is the accumulator before the first row."""
        return self.accumulator.value(self.accumulator.create() if kept is None else next(decoded(kept)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An accumulator of the `fields` (none: all) of a window's rows, which the window has in the field `column`.

    It has the Spark type `kind`. The step `step` computes the fields `made` from it.
    """

    step: str
    column: str
    accumulator: Mergeable
    kind: str
    fields: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def gate(self) -> str:
        """The name under which the rows are counted that come to the accumulator."""
        return f"{self.step}.rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Node):
    """Puts into a window's row the fields `made` that `function` computes of its rows, which are in the field `rows`.

    The field `rows`, which has the rows or their accumulator, is dropped. No state depends on the function: the rows
    are in state as they came, and an accumulator depends on its type alone.
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
