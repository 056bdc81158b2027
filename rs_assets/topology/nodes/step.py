"""Stateless steps: each handles one record at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.common.node import NO_EFFECT, Node
from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.udf import declared_in
from rs_assets.records.policy import OnFail
from rs_assets.topology.user_code.expression import ColumnBuilder, Expression, PythonFunction, SqlText
from rs_assets.topology.user_code.quoting import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Node):
    """Each record becomes another: a Python function with a schema, or a select list that stays in the JVM."""

    function: PythonFunction | None = None
    select: tuple[SqlText | ColumnBuilder, ...] = ()

    def detail(self) -> str:
        """The function's name or the select list."""
        return self.function.label if self.function else ", ".join(_text(e) for e in self.select)

    def identity(self) -> tuple[str, ...]:
        """The code or the select list."""
        return tuple(e.identity() for e in (self.select or (self.function,)) if e)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatches(Node):
    """Each record becomes another, by a Python function of whole Arrow batches; it gets `fields`, or all."""

    function: PythonFunction
    fields: tuple[str, ...] = ()

    def detail(self) -> str:
        """The function's name, and its fields."""
        return f"{self.function.label}({', '.join(self.fields)})" if self.fields else self.function.label

    def identity(self) -> tuple[str, ...]:
        """The code and its fields."""
        return (self.function.identity(), *self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap(Node):
    """Each record becomes any number of others, by a Python function or an SQL generator such as `explode(items)`."""

    expression: Expression

    def detail(self) -> str:
        """The function or the text."""
        return _text(self.expression)

    def identity(self) -> tuple[str, ...]:
        """The code or the text."""
        return (self.expression.identity(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Node):
    """Keeps the records for which the condition is true; false and null drop them."""

    condition: Expression

    def detail(self) -> str:
        """The condition."""
        return _text(self.condition)

    def identity(self) -> tuple[str, ...]:
        """The code or the text."""
        return (self.condition.identity(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect(Node):
    """Counts the rows for which the condition is not true; `on_fail` says what becomes of them.

    `tolerated` is the share of such rows within a day up to which the check in Dagster passes.
    """

    condition: Expression
    on_fail: OnFail = OnFail.WARN
    tolerated: float = field(default=0.0, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse a Python function, and a share outside of 0 to 1."""
        Node.__post_init__(self)
        if isinstance(self.condition, PythonFunction):
            raise TopologyError(
                f"step {self.name!r}: an expectation is SQL text or a Column, not a Python function",
                remedy="compute a field by .map(...) before it, and expect something of that field",
                step=self.name,
            )
        if type(self.tolerated) not in (int, float) or not 0 <= self.tolerated < 1:
            raise TopologyError(
                f"step {self.name!r}: tolerated={self.tolerated!r} must be a share of the rows, from 0 to below 1",
                remedy="use tolerated=0.01 for one row in a hundred",
                step=self.name,
            )

    def detail(self) -> str:
        """The condition, and what follows if it is not met."""
        return f"{self.said}, else {self.on_fail.value}"

    @property
    def said(self) -> str:
        """The condition."""
        return _text(self.condition)

    def identity(self) -> tuple[str, ...]:
        """The code or the text."""
        return (self.condition.identity(), self.on_fail.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEach(Node):
    """Calls a function for its side effect and passes the record on unchanged; a repeated batch calls it again."""

    at_once: ClassVar[bool] = True

    function: PythonFunction

    def detail(self) -> str:
        """The function's name."""
        return self.function.label

    def identity(self) -> tuple[str, ...]:
        """No state depends on a side effect."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectFields(Node):
    """Keeps only the named fields, in that order."""

    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse no field, or a duplicate."""
        Node.__post_init__(self)
        if not self.fields or len(set(self.fields)) != len(self.fields):
            raise TopologyError(f"step {self.name!r} must name at least one field and none twice: {self.fields}")

    def detail(self) -> str:
        """The fields."""
        return ", ".join(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithFields(Node):
    """Adds or replaces fields, computed in the JVM from the record as it came in."""

    columns: tuple[tuple[str, SqlText | ColumnBuilder], ...]

    def detail(self) -> str:
        """The new fields."""
        return ", ".join(name for name, _ in self.columns)

    def identity(self) -> tuple[str, ...]:
        """Names and expressions."""
        return tuple(f"{name}={e.identity()}" for name, e in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script(Node):
    """Statements in the script language, which fill, drop, rename and multiply records.

    `zone` is the time zone of times written without one. With `strict` a bare word that is not a field is refused.
    """

    text: str
    zone: str = "UTC"
    strict: bool = False

    def detail(self) -> str:
        """The statements."""
        return " ".join(self.text.split())

    def identity(self) -> tuple[str, ...]:
        """The statements and their settings."""
        return (one_line(self.text), self.zone, str(self.strict), *(each.code for each in declared_in(self.text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Node):
    """Feeds several streams of the same fields into one; keeps duplicates and guarantees no order between streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Node):
    """Gives each record a label; downstream `Select` nodes take the records of one label. Null: no branch."""

    label: Expression

    def detail(self) -> str:
        """The function or the text that computes the label."""
        return _text(self.label)

    def identity(self) -> tuple[str, ...]:
        """The code or the text."""
        return (self.label.identity(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Node):
    """The branch of a split that carries one label."""

    label: str

    def detail(self) -> str:
        """The label."""
        return self.label


def _text(value: Expression) -> str:
    match value:
        case SqlText(text):
            return " ".join(text.split())
        case PythonFunction():
            return f"{value.label}()"
        case _:
            return value.text or getattr(value, "written", "") or "a Spark column"
