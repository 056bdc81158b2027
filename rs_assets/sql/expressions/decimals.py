"""Digits of DECIMAL results as Flink derives them (its class LogicalTypeMerging, which follows SQL Server)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.records.types import MOST_DIGITS, Type, type_in

LEAST_SCALE: Final = 6
# The digits of integer types.
DIGITS: Final[Mapping[str, int]] = MappingProxyType({"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19})


def size_of(kind: Type) -> tuple[int, int]:
    """All digits of an integer type or a DECIMAL, and its decimals.

    >>> size_of(Type("decimal(10,2)")), size_of(Type("int"))
    ((10, 2), (10, 0))
    """
    if kind.name in DIGITS:
        return DIGITS[kind.name], 0
    precision, scale = (int(part) for part in kind.name[len("decimal(") : -1].split(","))
    return precision, scale


def decimal(precision: int, scale: int) -> Type:
    """The DECIMAL of a precision; above 38 digits the decimals are cut first, down to six.

    >>> decimal(46, 20).name
    'decimal(38,12)'
    """
    if precision > MOST_DIGITS:
        scale = max(MOST_DIGITS - (precision - scale), min(scale, LEAST_SCALE))
        precision = MOST_DIGITS
    made = type_in(f"decimal({precision},{scale})")
    assert made is not None  # at most 38 digits
    return made


def combined(sign: str, left: Type, right: Type) -> Type:
    """The type of `left` and `right` under `sign`, of which one is a DECIMAL and none is floating-point.

    >>> combined("/", Type("decimal(10,2)"), Type("int")).name
    'decimal(21,13)'
    """
    (p1, s1), (p2, s2) = size_of(left), size_of(right)
    scale = max(s1, s2)
    if sign == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if sign == "/":
        scale = max(LEAST_SCALE, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    if sign == "%":
        return decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def rounded(kind: Type, places: int) -> Type:
    """The type of a DECIMAL rounded to `places` decimals."""
    precision, scale = size_of(kind)
    if places >= scale:
        return kind
    behind = max(places, 0)
    return decimal(min(1 + precision - scale + behind, MOST_DIGITS), behind)


def whole_part(kind: Type) -> Type:
    """The type of FLOOR and CEIL of a DECIMAL."""
    return decimal(size_of(kind)[0], 0)


def summed(kind: Type) -> Type:
    """The type of SUM of a DECIMAL."""
    return decimal(MOST_DIGITS, size_of(kind)[1])
