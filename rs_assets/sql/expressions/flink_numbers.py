"""Functions of numbers as in Flink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rs_assets.records.decimals import magnitude
from rs_assets.records.types import Type
from rs_assets.sql.expressions.arithmetic import computed
from rs_assets.sql.expressions.decimals import rounded, whole_part
from rs_assets.sql.expressions.sql_function import Refusal, SqlFunction, numeric, whole_literal
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import FLOATS, is_decimal, is_whole

# From here on a DOUBLE has no decimals.
WHOLE_FROM: Final = "4503599627370496D"


def next_whole(name: str, value: Value) -> Value:
    """FLOOR or CEIL of a number, with the type of the number."""
    kind = value.type
    if is_whole(kind):
        return value
    if kind is not None and is_decimal(kind):
        made = whole_part(kind)
        return Value(f"cast({name}({value.plain}) AS {made.text})", made)
    if kind is None or kind.name not in FLOATS:
        return Value(f"{name}({value.plain})")
    made_of = f"cast({name}({value.plain}) AS {kind.name})"
    return Value(f"(CASE WHEN abs({value.text}) < {WHOLE_FROM} THEN {made_of} ELSE {value.text} END)", kind)


def _places(values: Sequence[Value]) -> int | None:
    return whole_literal(values[1]) if len(values) > 1 else 0


def _literal_places(values: Sequence[Value]) -> Refusal:
    if _places(values) is None:
        return "its second argument must be an integer literal", "write a CASE branch for each number"
    return None


def _rounded(values: Sequence[Value]) -> Value:
    value, places = values[0], _places(values)
    assert places is not None  # checked before
    text = f"round({value.plain}, {places})" if len(values) > 1 else f"round({value.plain})"
    if value.type is not None and is_decimal(value.type):
        kind = rounded(value.type, places)
        return Value(f"cast({text} AS {kind.text})", kind)
    return Value(text, value.type)


def _truncated(values: Sequence[Value]) -> Value:
    value, places = values[0], _places(values)
    assert places is not None
    kind = value.type
    if is_whole(kind) and places >= 0:
        return value
    exact = value.plain if is_decimal(kind) else f"try_cast({value.plain} AS decimal(38,18))"
    cut = f"CASE WHEN {value.text} < 0 THEN ceil({exact}, {places}) ELSE floor({exact}, {places}) END"
    if kind is not None and is_decimal(kind):
        made = rounded(kind, places)
        return Value(f"cast({cut} AS {made.text})", made)
    made = kind or Type("double")
    return Value(f"coalesce(cast({cut} AS {made.text}), {value.plain})", made)


def _log(value: str, name: str = "ln") -> str:
    """A logarithm of any number: negative infinity for 0, NaN for less."""
    other = f"WHEN {value} = 0 THEN double('-Infinity') WHEN {value} < 0 THEN double('NaN')"
    return f"(CASE WHEN {value} > 0 THEN {name}({value}) {other} END)"


def _log_to_base(values: Sequence[Value]) -> str:
    logs = [_log(value.text) for value in values]
    return logs[0] if len(logs) == 1 else f"({logs[1]} / {logs[0]})"


def _sign(values: Sequence[Value]) -> Value:
    value, kind = values[0], values[0].type
    if kind is None or kind.name == "void":
        return Value(f"sign({value.plain})", Type("double"))
    return Value(f"cast(sign({value.plain}) AS {kind.text})", kind)


def _absolute(values: Sequence[Value]) -> Value:
    kind = values[0].type
    return Value(magnitude(values[0].plain, kind.name if kind is not None else None), kind)


def _hex_only(values: Sequence[Value]) -> Refusal:
    kind = values[0].type
    if kind is not None and not is_whole(kind) and kind.name not in ("string", "void"):
        return f"its argument is {kind.text.upper()}", "CAST(... AS BIGINT), or AS STRING"
    return None


_UNHEX: Final = "unhex(if(length({0}) % 2 = 1, concat('00', substring({0}, 2)), {0}))"
NUMBERS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "ABS": numeric(_absolute),
        "MOD": numeric(lambda values: computed("%", *values), arity=2),
        "ROUND": SqlFunction(1, 2, _rounded, "", numbers=(0,), refuses=_literal_places),
        "TRUNCATE": SqlFunction(1, 2, _truncated, "", numbers=(0,), refuses=_literal_places),
        "POWER": numeric("power({0}, {1})", arity=2),
        "SQRT": numeric("sqrt({0})"),
        "EXP": numeric("exp({0})"),
        "LN": numeric(lambda values: _log(values[0].text)),
        "LOG10": numeric(lambda values: _log(values[0].text, "log10")),
        "LOG2": numeric(lambda values: _log(values[0].text, "log2")),
        "LOG": SqlFunction(1, 2, _log_to_base, "double", numbers=(0, 1)),
        **{
            name: numeric(f"{name.lower()}({{0}})")
            for name in (
                "SIN", "SINH", "COS", "COSH", "TAN", "TANH", "COT", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS",
            )
        },
        "ATAN2": numeric("atan2({0}, {1})", arity=2),
        "SIGN": numeric(_sign),
        "PI": SqlFunction(0, 0, "pi()", "double"),
        "E": SqlFunction(0, 0, "e()", "double"),
        "BIN": numeric("bin({0})", "string"),
        "HEX": SqlFunction(1, 1, "hex({0})", "string", refuses=_hex_only),
        "UNHEX": SqlFunction(1, 1, _UNHEX, "binary", texts=(0,)),
    }
)  # fmt: skip
