"""Arithmetic with +, -, *, / and %: results have Flink's types and digits."""

from __future__ import annotations

from rs_assets.records.types import Type
from rs_assets.sql.expressions.decimals import combined, size_of
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import BIGINT, DOUBLE, FLOATS, common, is_decimal, is_whole


def computed(sign: str, left: Value, right: Value) -> Value:
    """Two numbers under `sign`; of an unknown type if the type of one is unknown."""
    kind = _result(sign, left.type, right.type)
    if kind is None:
        return Value(f"({left.text} {sign} {right.text})")
    if sign == "/" and is_whole(kind):
        return _whole_quotient(left, right, kind)
    exact = sign == "/"
    text = f"{_operand(left, kind, exact=exact)} {sign} {_operand(right, kind, exact=exact)}"
    # Spark divides FLOAT as DOUBLE.
    return Value(f"cast({text} AS float)" if exact and kind.name == "float" else f"({text})", kind)


def _result(sign: str, left: Type | None, right: Type | None) -> Type | None:
    if left is None or right is None:
        return None
    if is_decimal(left) or is_decimal(right):
        return DOUBLE if {left.name, right.name} & set(FLOATS) else combined(sign, left, right)
    return common(left, right)


def _whole_quotient(left: Value, right: Value, kind: Type) -> Value:
    """Decimals are dropped; `div` returns a BIGINT for all whole numbers."""
    text = f"({left.text} div {right.text})"
    return Value(text if kind == BIGINT else f"cast({text[1:-1]} AS {kind.text})", kind)


def _operand(value: Value, kind: Type, *, exact: bool) -> str:
    """A value as an operand of a result of the type `kind`.

    Spark counts the digits of a literal, and takes 20 for a BIGINT; it computes a FLOAT with a whole number as DOUBLE.
    The digits of a quotient depend on those of both operands.
    """
    if value.type is None:
        return value.text
    written = value.text.startswith("0.")
    if is_decimal(kind) and (is_whole(value.type) or written or (exact and value.field is None)):
        precision, scale = size_of(value.type)
        return f"cast({value.plain} AS decimal({precision},{scale}))"
    if kind.name == "float" and value.type.name != "float":
        return f"cast({value.plain} AS float)"
    return value.text
