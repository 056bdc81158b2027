"""Tables of values that Python functions keep for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rs_assets.common.node import NO_EFFECT
from rs_assets.errors import TopologyError
from rs_assets.topology.nodes.process import BUCKETS, STATE, TIMEOUT
from rs_assets.topology.nodes.table import TableState
from rs_assets.topology.user_code.expression import PythonFunction


@dataclass(frozen=True, slots=True)
class Adder:
    """What a row of one input does to the value of its key, `add(key, row, value)`, and what takes that back.

    `subtract` is None if no row of the input ever goes.
    """

    add: Callable[[dict[str, Any], dict[str, Any], Any], Any]
    subtract: Callable[[dict[str, Any], dict[str, Any], Any], Any] | None


@dataclass(frozen=True, slots=True)
class Adders:
    """Those of each input, and what makes the value of a new key; None is the value without it."""

    of: tuple[Adder, ...]
    initial: Callable[[], Any] | None

    @property
    def __name__(self) -> str:
        """The names of the functions."""
        return ", ".join(getattr(each.add, "__name__", type(each.add).__name__) for each in self.of)

    @property
    def subtract(self) -> bool:
        """Whether rows of some input may go."""
        return any(each.subtract is not None for each in self.of)

    def functions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """All functions, each with what it is for."""
        for each in self.of:
            yield "that adds a row", each.add
            if each.subtract is not None:
                yield "that subtracts a row (subtract=)", each.subtract
        if self.initial is not None:
            yield "that makes a first value (initial=)", self.initial

    def __call__(self, row: dict[str, Any]) -> Any:
        """What the first one makes of a single row."""
        return self.of[0].add({}, row, None if self.initial is None else self.initial())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReduce(TableState):
    """A value for each key, a record that Python functions make of the rows of all inputs; `function` has `Adders`.

    A key without rows has no value. A row with a null among the keys has none either.
    """

    function: PythonFunction
    buckets: int = BUCKETS
    timeout: timedelta = field(default=TIMEOUT, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse a value whose fields are among the keys."""
        TableState.__post_init__(self)
        from rs_assets.records.fields import declared

        made = declared(self.schema, step=self.name)
        both = next((key for key in self.keys if made.find(key) is not None), None)
        if both is not None:
            raise TopologyError(
                f"the field {both!r} of step {self.name!r} is a key, and a field of the value",
                remedy="leave it out of schema=: a value is kept with its key",
                step=self.name,
            )

    @property
    def schema(self) -> str:
        """The fields of a value."""
        return self.function.schema or ""

    @property
    def variable(self) -> str:
        """The name of its state."""
        return STATE

    def detail(self) -> str:
        """The functions and the keys."""
        return f"{self.function.label} by {', '.join(self.keys)}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state; not the functions, which may be mended."""
        return (",".join(self.keys), self.schema, f"buckets={self.buckets}")

    @property
    def emitting(self) -> tuple[str, ...]:
        """The functions."""
        return (self.function.identity(),)
