"""Expressions of a traced function, as frozen data independent of Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

# The greatest and the least bigint.
LEAST, GREATEST = -(2**63), 2**63 - 1
# Whole numbers up to here have exact doubles.
EXACT_DOUBLE = 2**53
# The field types that are modelled, with the bits of whole numbers besides the sign.
WHOLE = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record."""

    name: str

    @property
    def size(self) -> int:
        """How many parts it has."""
        return 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of one of Spark's types, by its name; `shown` distinguishes 0.0 from -0.0, equal in Python."""

    kind: str
    value: str | int | float | bool | None
    shown: str

    @property
    def size(self) -> int:
        """How many parts it has."""
        return 1


@dataclass(frozen=True, slots=True)
class Call:
    """An operation: a key of `columns.OPERATIONS`. Operations never raise; a null argument makes the result null."""

    operation: str
    parts: tuple[Expression, ...]
    size: int = field(compare=False)


Expression = Field | Literal | Call


def literal(kind: str, value: str | float | bool | None) -> Literal:  # noqa: FBT001  a value, not a flag
    """A constant.

    >>> literal("double", 0.0) == literal("double", -0.0)
    False
    """
    return Literal(kind, value, repr(value))


def text(value: str) -> Literal:
    """A constant string."""
    return literal("string", value)


def whole(value: int) -> Literal:
    """A constant bigint."""
    return literal("bigint", value)


def call(operation: str, *parts: Expression) -> Call:
    """An operation over `parts`."""
    return Call(operation, parts, 1 + sum(part.size for part in parts))
