"""Comparisons of exact numbers: Spark rounds one of two that need more than 38 digits, Flink does not."""

from __future__ import annotations

from rs_assets.records.decimals import Typed, exactly
from rs_assets.records.types import compared_by_rounding
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
    return exactly(sign, _typed(left), _typed(right))


def _typed(value: Value) -> Typed:
    assert value.type is not None  # checked before
    return value.text, value.type.name
