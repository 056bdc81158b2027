"""Comparisons of exact numbers: Spark rounds one of two that need more than 38 digits, Flink does not."""

from __future__ import annotations

from rs_assets.records.types import MOST_DIGITS, compared_by_rounding
from rs_assets.sql.expressions.decimals import size_of
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.values import Value


def is_rounded(made: Expressions, one: Value, two: Value) -> bool:
    """Whether Spark would round one of two values to compare them. In its own dialect that is what is meant."""
    if one.type is None or two.type is None or made.text.dialect == "spark":
        return False
    return compared_by_rounding(one.type.name, two.type.name)


def comparison(made: Expressions, sign: str, left: Value, right: Value) -> str:
    """The SQL of two values under a sign of comparison, with all of their digits."""
    if not is_rounded(made, left, right):
        return f"({left.text} {sign} {right.text})"
    whole = [f"floor({each.text})" for each in (left, right)]
    # Of a whole number it is 0, with one digit: Spark takes 20 for a bigint here, too.
    rest = [f"cast(pmod({each.text}, 1) AS {_rest_of(each)})" for each in (left, right)]
    if sign in ("=", "<=>", "<>"):
        plain = "=" if sign == "<>" else sign
        same = f"({whole[0]} {plain} {whole[1]} AND {rest[0]} {plain} {rest[1]})"
        return f"(NOT {same})" if sign == "<>" else same
    equal = f"{whole[0]} = {whole[1]} AND {rest[0]} {sign} {rest[1]}"
    return f"({whole[0]} {sign[0]} {whole[1]} OR ({equal}))"


def _rest_of(value: Value) -> str:
    """The type of the digits after the decimal point, with one before it."""
    assert value.type is not None  # noqa: S101  checked before
    scale = size_of(value.type)[1]
    return f"decimal({min(scale + 1, MOST_DIGITS)},{scale})"
