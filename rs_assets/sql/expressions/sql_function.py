"""Functions of streaming SQL: arguments, the Spark SQL of a call, and the result type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value

# The type of a call from its arguments; a text is a fixed type.
Returns = str | Callable[[Sequence[Value]], Type | None]
# Spark SQL with arguments in braces, or a function that makes a text, or a value with a type.
Template = str | Callable[[Sequence[Value]], str | Value]
# The fault of arguments and its remedy; None if there is none.
Refusal = tuple[str, str] | None
MANY: Final = 255
_WHOLE_LITERAL: Final = re.compile(r"\(?-? ?\d+\)?")


def _takes_all(_values: Sequence[Value]) -> Refusal:
    return None


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function: its number of arguments, the SQL of a call, and the result type.

    `texts` are the positions of arguments that must be texts if their type is known, `numbers` those of numbers,
    `times` those of times and dates. `compares` says that its two arguments must be comparable, as under `=`. `refuses`
    returns the fault of unsupported arguments. With more than `most` arguments it is the function `longer`, if any.
    """

    least: int
    most: int
    template: Template
    returns: Returns
    texts: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    compares: bool = False
    # The values of the first argument, a word.
    words: tuple[str, ...] = ()
    refuses: Callable[[Sequence[Value]], Refusal] = _takes_all
    longer: SqlFunction | None = None

    def sql(self, values: Sequence[Value]) -> str | Value:
        """The Spark SQL of a call."""
        if callable(self.template):
            return self.template(values)
        texts = [value.text for value in values]
        return self.template.format(*texts, all=", ".join(texts))


def kind_of_first(values: Sequence[Value]) -> Type | None:
    """The type of the first argument."""
    return values[0].type


def numeric(template: Template, returns: Returns = "double", arity: int = 1) -> SqlFunction:
    """A function of `arity` numbers."""
    return SqlFunction(arity, arity, template, returns, numbers=tuple(range(arity)))


def textual(
    template: Template,
    least: int,
    most: int,
    returns: Returns = "string",
    texts: tuple[int, ...] = (0,),
    *,
    refuses: Callable[[Sequence[Value]], Refusal] = _takes_all,
) -> SqlFunction:
    """A function whose arguments at `texts` are texts."""
    return SqlFunction(least, most, template, returns, texts=texts, refuses=refuses)


def whole_literal(value: Value) -> int | None:
    """The value of an integer literal, None for anything else.

    >>> whole_literal(Value("(- 2)")), whole_literal(Value("`n`"))
    (-2, None)
    """
    found = _WHOLE_LITERAL.fullmatch(value.text)
    return int(value.text.strip("()").replace(" ", "")) if found else None


def as_int(value: Value) -> str:
    """A number as an INT, which Spark's text functions need."""
    known = value.type is None or value.type.name in ("tinyint", "smallint", "int", "void")
    return value.text if known or whole_literal(value) is not None else f"cast({value.plain} AS int)"
