"""The opposite of a decimal: Spark's own keeps 34 digits and rounds the others, without a word."""

from __future__ import annotations

import re
from typing import Final

# What Spark's minus and abs keep of the 38 digits that a decimal may have.
KEPT: Final = 34
_DECIMAL = re.compile(r"decimal\((\d+),\s*\d+\)")


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


def _is_long(kind: str | None) -> bool:
    """Whether a type may have more digits than Spark keeps."""
    found = _DECIMAL.fullmatch(kind or "")
    return found is not None and int(found[1]) > KEPT
