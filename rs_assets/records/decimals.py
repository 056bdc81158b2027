"""Decimals with all of their digits, of which Spark rounds some, without a word.

Its minus keeps 34 digits, and of two numbers that need more than 38 together it rounds one to compare them.
"""

from __future__ import annotations

from typing import Final

from rs_assets.records.types import MOST_DIGITS, digits_of

# What Spark's minus and abs keep of the 38 digits that a decimal may have.
KEPT: Final = 34
# The SQL of a number, and its type.
Typed = tuple[str, str]


def opposite(text: str, kind: str | None) -> str:
    """The SQL of the opposite of the number `text`, which is a `kind` of Spark, with all of its digits.

    >>> opposite("`a`", "decimal(20,2)"), opposite("`a`", None)
    ('(- `a`)', '(- `a`)')
    >>> opposite("`a`", "decimal(38,2)")
    "cast(concat(if(`a` < 0, '', '-'), trim(LEADING '-' FROM cast(`a` AS string))) AS decimal(38,2))"
    """
    if not _is_long(kind):
        return f"(- {text})"
    digits = f"trim(LEADING '-' FROM cast({text} AS string))"
    return f"cast(concat(if({text} < 0, '', '-'), {digits}) AS {kind})"


def magnitude(text: str, kind: str | None) -> str:
    """The SQL of the number `text` without its sign, with all of its digits.

    >>> magnitude("`a`", "double"), magnitude("`a`", "decimal(38,2)")
    ('abs(`a`)', "cast(trim(LEADING '-' FROM cast(`a` AS string)) AS decimal(38,2))")
    """
    return f"cast(trim(LEADING '-' FROM cast({text} AS string)) AS {kind})" if _is_long(kind) else f"abs({text})"


def exactly(sign: str, left: Typed, right: Typed) -> str:
    """The SQL of two exact numbers under a sign of comparison: their whole parts are compared, then the rest.

    >>> exactly("=", ("a", "decimal(38,1)"), ("b", "bigint"))
    '(floor(a) = floor(b) AND cast(pmod(a, 1) AS decimal(2,1)) = cast(pmod(b, 1) AS decimal(1,0)))'
    """
    whole = [f"floor({text})" for text, _ in (left, right)]
    # Of a whole number it is 0, with one digit: Spark takes 20 for a bigint here, too.
    rest = [f"cast(pmod({text}, 1) AS {_rest_of(kind)})" for text, kind in (left, right)]
    if sign in ("=", "<=>", "<>"):
        plain = "=" if sign == "<>" else sign
        same = f"({whole[0]} {plain} {whole[1]} AND {rest[0]} {plain} {rest[1]})"
        return f"(NOT {same})" if sign == "<>" else same
    equal = f"{whole[0]} = {whole[1]} AND {rest[0]} {sign} {rest[1]}"
    return f"({whole[0]} {sign[0]} {whole[1]} OR ({equal}))"


def _rest_of(kind: str) -> str:
    """The type of the digits after the decimal point, with one before it."""
    _, scale = digits_of(kind) or (0, 0)
    return f"decimal({min(scale + 1, MOST_DIGITS)},{scale})"


def _is_long(kind: str | None) -> bool:
    """Whether a type may have more digits than Spark keeps."""
    return sum(digits_of(kind or "") or ()) > KEPT
