"""What a function of streaming SQL is: its arguments, the Spark SQL of a call, and the type that it gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value

# The type of a call, from its arguments; a text names one.
Returns = str | Callable[[Sequence[Value]], Type | None]
# Spark SQL with the places of arguments in braces, or what makes it: a text, or a value with a type of its own.
Template = str | Callable[[Sequence[Value]], str | Value]
# What is wrong with arguments, and what to write; None if nothing is.
Refusal = tuple[str, str] | None
MANY: Final = 255
_WHOLE_LITERAL: Final = re.compile(r"\(?-? ?\d+\)?")


def _takes_all(values: Sequence[Value]) -> Refusal:  # noqa: ARG001  the table's form
    return None


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function: how many arguments it takes, what a call becomes, and the type that it gives.

    `texts` are the places of arguments that must be texts if their type is known, `numbers` those of numbers.
    `refuses` says what it cannot do with some arguments.
    """

    least: int
    most: int
    template: Template
    returns: Returns
    texts: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    # What the first argument, a word, may be.
    words: tuple[str, ...] = ()
    refuses: Callable[[Sequence[Value]], Refusal] = _takes_all

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
    """A function of so many numbers."""
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
    """The whole number that is written there, None if it is something else.

    >>> whole_literal(Value("(- 2)")), whole_literal(Value("`n`"))
    (-2, None)
    """
    found = _WHOLE_LITERAL.fullmatch(value.text)
    return int(value.text.strip("()").replace(" ", "")) if found else None


def as_int(value: Value) -> str:
    """A number as an INT, which Spark's functions of texts ask for."""
    known = value.type is None or value.type.name in ("tinyint", "smallint", "int", "void")
    return value.text if known or whole_literal(value) is not None else f"cast({value.plain} AS int)"
