"""Comparisons of scripts, typed by their operands: a literal number compares numbers, a text compares texts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rs_assets.expressions.functions.kinds import local_time_of
from rs_assets.expressions.syntax.typed import Sql, is_numeric
from rs_assets.records.decimals import Typed, exactly
from rs_assets.records.types import compared_by_rounding

# Numbers that differ by less are equal, if one was written with a decimal point.
NEAR = "0.001D"
MIRRORED = {"==": "==", "!=": "!=", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})


def compared(operator: str, left: Sql, right: Sql, zone: str = "UTC") -> Sql:
    """Whether a comparison holds. Null equals only null; any other comparison with null is false.

    Times are local ones of `zone`.
    """
    if _is_number(left) and not _is_number(right):
        return compared(MIRRORED[operator], right, left, zone)
    if "void" in (left.kind, right.kind):
        known = right if left.kind == "void" else left
        return _boolean({"==": f"({known.text} is null)", "!=": f"({known.text} is not null)"}.get(operator, "false"))
    if _is_number(right):
        return _with_number(operator, left, str(right.literal))
    if left.kind and right.kind and compared_by_rounding(left.kind, right.kind):
        return _exactly(operator, (left.text, left.kind), (right.text, right.kind))
    one, other = _alike(left, right, zone)
    if operator in ("==", "!="):
        equal = f"({one} <=> {other})"
        return _boolean(equal if operator == "==" else f"(not {equal})")
    return _boolean(f"coalesce({one} {operator} {other}, false)")


def _exactly(operator: str, left: Typed, right: Typed) -> Sql:
    """Two numbers of which Spark would round one."""
    if operator in ("==", "!="):
        equal = exactly("<=>", left, right)
        return _boolean(equal if operator == "==" else f"(not {equal})")
    return _boolean(f"coalesce({exactly(operator, left, right)}, false)")


def _is_number(value: Sql) -> bool:
    return value.literal is not None and not value.quoted and is_numeric(value.kind)


def _with_number(operator: str, left: Sql, digits: str) -> Sql:
    number = left.text if is_numeric(left.kind) else f"try_cast({left.text} as double)"
    written = digits if "." not in digits else f"{Decimal(digits):f}D"
    # A text with a long number is compared as it is: as a double it would equal adjacent numbers.
    exact = f"try_cast({left.text} as bigint)" if number != left.text and "." not in digits else ""

    def holds(sign: str) -> str:
        found = f"abs({number} - {written}) < {NEAR}" if sign == "=" and "." in digits else f"{number} {sign} {written}"
        return f"coalesce({exact} {sign} {written}, {found}, false)" if exact else f"coalesce({found}, false)"

    if operator in ("==", "!="):
        return _boolean(holds("=") if operator == "==" else f"(not {holds('=')})")
    return _boolean(holds(operator))


def _alike(left: Sql, right: Sql, zone: str) -> tuple[str, str]:
    """Both sides as one type: their common type if there is one, times if one is a time, else texts."""
    kinds = {left.kind, right.kind}
    if (len(kinds) == 1 and None not in kinds) or all(is_numeric(kind) for kind in kinds):
        return left.text, right.text
    if kinds & TIMES:
        return _time(left, zone), _time(right, zone)
    if kinds == {"boolean", "string"}:
        one, other = (
            each.text if each.kind == "boolean" else f"try_cast({each.text} as boolean)" for each in (left, right)
        )
        return one, other
    return left.as_type("string").text, right.as_type("string").text


def _time(value: Sql, zone: str) -> str:
    return local_time_of(value.text, zone) if value.kind == "string" else f"cast({value.text} as timestamp)"


def both(operator: str, parts: Sequence[Sql]) -> Sql:
    """All of the parts, or any."""
    word = " and " if operator == "&" else " or "
    return _boolean(f"({word.join(part.condition for part in parts)})")


def negated(part: Sql) -> Sql:
    """The negation of a condition; true for null."""
    return _boolean(f"(not {part.condition})")


def _boolean(text: str) -> Sql:
    return Sql(text, "boolean")
