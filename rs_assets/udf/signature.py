"""Parameter and result types of a function, read from its annotations or from DDL."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rs_assets.common.plural import count_of
from rs_assets.errors import SchemaError, TopologyError
from rs_assets.expressions.functions.function import Parameter
from rs_assets.expressions.functions.literals import quote
from rs_assets.records.schema import ddl_type, is_record_type, record_ddl, schema_text
from rs_assets.records.types import DdlError, Type, fields_in, type_in

NULL: Final = type(None)
NOT_NULL: Final = " not null"
# A quoted part is one piece; otherwise each character is one.
_PIECE: Final = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Taken:
    """The parameters of a function, and for each whether the function is only called if its argument is not null."""

    parameters: tuple[Parameter, ...]
    needs: tuple[bool, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Their Spark types."""
        return tuple(each.kind for each in self.parameters)


def taken_by(call: Callable[..., Any], arguments: object, *, name: str, bound: int = 0) -> Taken:
    """The parameters of `call` after its first `bound` ones; `arguments` is DDL that replaces its annotations."""
    try:
        found = list(inspect.signature(call).parameters.values())[bound:]
    except (TypeError, ValueError):
        raise _no_function(name, "its signature cannot be read") from None
    wrong = next((each for each in found if each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD)), None)
    if wrong is not None:
        raise _no_function(name, f"its parameter {wrong.name!r} is keyword-only")
    kinds, needs = _of_ddl(found, arguments, name) if arguments is not None else _of_hints(call, found, name)
    made = tuple(
        Parameter(each.name, kind, _default(each, name), each.kind is each.VAR_POSITIONAL)
        for each, kind in zip(found, kinds, strict=True)
    )
    # A function that can be called without a value must accept null for it, whatever its annotation says.
    return Taken(made, tuple(need and each.default is not None for need, each in zip(needs, found, strict=True)))


def _of_ddl(found: Sequence[inspect.Parameter], arguments: object, name: str) -> tuple[list[str], list[bool]]:
    text = schema_text(arguments, step=name) or ""
    declared = _fields(text, name)
    if len(declared) != len(found):
        raise _no_function(name, f"it has {count_of(len(found), 'parameter')}, but {text!r} declares {len(declared)}")
    return [kind for _, kind, _ in declared], [not null for _, _, null in declared]


def _of_hints(call: Callable[..., Any], found: Sequence[inspect.Parameter], name: str) -> tuple[list[str], list[bool]]:
    hints = hints_of(call)
    bare = next((each for each in found if each.name not in hints), None)
    if bare is not None:
        raise SchemaError(
            f"the parameter {bare.name!r} of the function {name!r} has no type{_unknown(bare.annotation)}",
            remedy=f"annotate it ({bare.name}: str), or declare all types: arguments='{bare.name} string'",
        )
    kinds = [spark_type(hints[each.name], name=name, field=each.name) for each in found]
    return kinds, [not _optional(hints[each.name]) for each in found]


def hints_of(call: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, without those that name an unknown type."""
    if isinstance(call, functools.partial):
        return hints_of(call.func)
    inner = call if inspect.isroutine(call) else type(call).__call__
    try:
        return typing.get_type_hints(inner)
    except (NameError, TypeError, AttributeError):
        found = {name: _resolved(inner, hint) for name, hint in getattr(inner, "__annotations__", {}).items()}
        return {name: hint for name, hint in found.items() if hint is not None}


def _resolved(call: Callable[..., Any], hint: object) -> Any:
    """One annotation of `call`; None if it names an unknown type."""
    alone = types.SimpleNamespace(__annotations__={"it": hint})
    try:
        return typing.get_type_hints(alone, getattr(inspect.unwrap(call), "__globals__", {}))["it"]
    except (NameError, TypeError, AttributeError):
        return None


def _unknown(annotation: object) -> str:
    """What to add to an error about a missing type: the annotation that names no known type."""
    return "" if annotation is inspect.Parameter.empty else f": the annotation {annotation!r} cannot be resolved"


def returned_by(call: Callable[..., Any], returns: object, *, name: str) -> tuple[str, bool]:
    """The Spark type that `call` returns, and whether it is never None; `returns` replaces its annotation."""
    if returns is not None:
        text, filled = _without_null(str(returns))
        return _checked(text, name), filled
    hint = hints_of(call).get("return")
    if hint is None or hint is NULL:
        raise SchemaError(
            f"the result of the function {name!r} has no type",
            remedy="annotate it (-> str | None), or declare it: returns='string'",
        )
    return spark_type(hint, name=name, field="return"), not _optional(hint)


def accumulator_of(aggregate: Any, declared: str | None, *, name: str) -> str | None:
    """The Spark type of the accumulators that an aggregate merges, None if it does not; from DDL or its annotation."""
    if not callable(getattr(aggregate, "merge", None)):
        return None
    if declared is not None:
        return _checked(declared, name)
    hint = hints_of(aggregate.create).get("return")
    if hint is None or hint is NULL:
        raise SchemaError(
            f"the accumulator of the aggregate {name!r} has no type",
            remedy="annotate what create() returns (-> list[int]), or declare it: accumulator='array<bigint>'; without"
            " a method merge the rows of a window are its state",
        )
    return spark_type(hint, name=name, field="accumulator")


def rows_returned_by(call: Callable[..., Any], returns: object, *, name: str) -> tuple[tuple[str, str], ...]:
    """The fields of rows of `call`: from `returns`, else from the class in its annotation, else the one field `f0`."""
    text = schema_text(returns, step=name)
    if text is None:
        inner = next(iter(typing.get_args(hints_of(call).get("return"))), None)
        if inner is None:
            raise SchemaError(
                f"the rows of the function {name!r} have no schema",
                remedy="declare it: returns='word string, n bigint', or annotate -> Iterator[a class of records]",
            )
        record = is_record_type(inner)
        text = record_ddl(inner, step=name) if record else f"f0 {spark_type(inner, name=name, field='f0')}"
    return tuple((field, kind) for field, kind, _ in _fields(text, name))


def spark_type(hint: object, *, name: str, field: str) -> str:
    """The Spark type of an annotation."""
    try:
        return _checked(ddl_type(hint, step=name, field=field), name)
    except SchemaError:
        raise SchemaError(
            f"the type {hint!r} of {field!r} of the function {name!r} has no Spark type",
            remedy="declare types in DDL: @function(arguments='s string, n bigint', returns='string')",
        ) from None


def _optional(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType) and NULL in typing.get_args(hint)


def _without_null(text: str) -> tuple[str, bool]:
    plain = text.strip()
    filled = plain.lower().endswith(NOT_NULL)
    return (plain[: -len(NOT_NULL)].strip() if filled else plain), filled


def _checked(text: str, name: str) -> str:
    """The type by Spark's name."""
    made = type_in(text)
    if made is None or "?" in made.text:
        raise SchemaError(f"the type {text!r} of the function {name!r} is unknown", remedy="write it as 'bigint'")
    return made.text


def _fields(text: str, name: str) -> list[tuple[str, str, bool]]:
    """The fields of DDL: names, types, and whether each may be null."""
    try:
        found = fields_in(text) if text.strip() else {}
    except DdlError as error:
        raise SchemaError(
            f"the schema of the function {name!r} does not parse: {error}", remedy=error.remedy
        ) from error
    if found is None or any(kind is None or "?" in kind.text for kind in found.values()):
        raise SchemaError(
            f"the schema {text!r} of the function {name!r} is not understood", remedy="write it as 's string, n bigint'"
        )
    parts = [part for part in _parts(text) if part.strip()]
    return [
        (field, _text(kind), not part.strip().lower().endswith(NOT_NULL))
        for (field, kind), part in zip(found.items(), parts, strict=True)
    ]


def _parts(text: str) -> list[str]:
    """The parts between commas outside of brackets and quotes."""
    made, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece in "<(") - (piece in ">)")
        if piece == "," and not depth:
            made.append("")
        else:
            made[-1] += piece
    return made


def _text(kind: Type | None) -> str:
    assert kind is not None  # checked before
    return kind.text


def _default(parameter: inspect.Parameter, name: str) -> str | None:
    value = parameter.default
    if value is parameter.empty:
        return None
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    raise _no_function(name, f"the default of {parameter.name!r} is not a text, number, boolean or None")


def _no_function(name: str, why: str) -> TopologyError:
    return TopologyError(
        f"the function {name!r} cannot be called by name: {why}",
        remedy="give it positional parameters, each with a type: def f(s: str, n: int = 1) -> str",
    )
