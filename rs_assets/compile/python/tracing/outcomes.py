"""Outcomes of a traced function: the meaning of its return value for each kind of step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.compile.python.tracing.explore import OutcomeOf
from rs_assets.compile.python.tracing.expression import WHOLE, Expression, call, literal, text, whole
from rs_assets.compile.python.tracing.numeric import Real, Whole
from rs_assets.compile.python.tracing.path import Path
from rs_assets.compile.python.tracing.texts import Text
from rs_assets.compile.python.tracing.tree import ASK, Leaf
from rs_assets.compile.python.tracing.values import Opaque, Passed, Value

# Types whose values survive a round trip through Python unchanged.
HANDED_ON = ("date", "timestamp", "binary")
PASSED = ("string", "double", "boolean", *HANDED_ON)
# The constants that Arrow accepts for a field without conversion.
CONSTANTS = {("string", str), ("boolean", bool), ("double", float)}
STANDS_FOR: Mapping[str, type[Value]] = MappingProxyType({"string": Text, "double": Real})


def filter_outcome(_path: Path, result: Any) -> Leaf:
    """A record stays if the result is true."""
    return Leaf("keep") if result else Leaf("drop")


def flat_map_outcome(_path: Path, result: Any) -> Leaf:
    """A record with an empty result is dropped; all others are for Python."""
    nothing = result is None or (type(result) in (list, tuple) and not result)
    return Leaf("drop") if nothing else ASK


def label_outcome(path: Path, result: Any) -> Leaf:
    """The label as text; no label for None."""
    if result is None:
        return Leaf("made", (literal("string", None),))
    if issubclass(type(result), Text):
        return Leaf("made", (result.rs_expression,))
    if type(result) not in (str, bool, int):
        path.ask("a label is text, a constant number or None in a plan")
    return Leaf("made", (text(str(result).encode().decode()),))


def map_outcome(made: Mapping[str, str]) -> OutcomeOf:
    """A record of the fields `made`, whose types have to be those of the values."""

    def outcome_of(path: Path, result: Any) -> Leaf:
        if type(result) is not dict:
            path.ask("it returns something else than a dict of its own")
        if result.keys() != made.keys():
            path.ask("it does not return just the fields of its schema")
        return Leaf("made", tuple(_fitting(path, result[name], kind) for name, kind in made.items()))

    return outcome_of


def _fitting(path: Path, value: Any, kind: str) -> Expression:
    """`value` for a field of type `kind`; falls back to Python where Arrow's conversion may differ."""
    held = type(value)
    if held is Passed:
        return _passed(path, value, kind)
    if value is None:
        return literal(kind, None)
    if (kind, held) in CONSTANTS:
        return Text(path, text("")).rs_constant(value) if held is str else literal(kind, value)
    if kind in WHOLE and (issubclass(held, Whole) or held is int):
        return _whole(path, value, kind)
    same = issubclass(held, Opaque) and value.rs_kind == kind and kind in HANDED_ON
    if same or issubclass(held, STANDS_FOR.get(kind, ())):
        return value.rs_expression  # type: ignore[no-any-return]
    shown = value.rs_called if issubclass(held, Value) else held.__name__
    return path.ask(f"{shown} for a field of type {kind} is not known")


def _passed(path: Path, value: Passed, kind: str) -> Expression:
    """A field of `{**row}` for a field of type `kind`; null stays null."""
    held, made = value.rs_kind, value.rs_expression
    if held not in WHOLE or kind not in WHOLE:
        return made if held == kind and kind in PASSED else path.ask(f"{held} for a field of type {kind} is not known")
    if WHOLE[held] > WHOLE[kind]:
        most = 2 ** WHOLE[kind]
        fits = call("between", call("bigint", made), whole(-most), whole(most - 1))
        if not path.fork(call("or", call("is_null", made), fits)):
            path.ask(f"numbers that do not fit the type {kind}")
    return made if held == kind else call(kind, made)


def _whole(path: Path, value: Any, kind: str) -> Expression:
    most = 2 ** WHOLE[kind]
    if type(value) is int:
        if not -most <= value < most:
            path.ask(f"{value} does not fit the type {kind}")
        return literal(kind, value)
    if value.rs_least < -most or value.rs_greatest >= most:
        inside = call("between", value.rs_expression, whole(-most), whole(most - 1))
        if not path.fork(inside):
            path.ask(f"numbers that do not fit the type {kind}")
    return value.rs_expression if kind == "bigint" else call(kind, value.rs_expression)
