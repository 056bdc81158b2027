"""Compiles values and calls to Spark SQL over known fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import UNKNOWN, Function
from rs_assets.expressions.functions.kinds import LITERALS
from rs_assets.expressions.functions.literals import quote, quote_name
from rs_assets.expressions.functions.registry import function_named
from rs_assets.expressions.syntax.compare import both, compared, negated
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.expressions.syntax.tree import Both, Call, Compare, Not, Number, Text, Value, Word
from rs_assets.expressions.syntax.typed import Sql, united_types

# Longer SQL is too large for one Spark step; such a script should name its intermediate values.
LONGEST_SQL = 200_000
CONSTANTS = {"null": Sql("null", "void", literal="null"), "true": Sql("true", "boolean", literal="true")}
CONSTANTS["false"] = Sql("false", "boolean", literal="false")
# Comparisons written as calls.
CALLED = {
    **dict.fromkeys(("equal", "equals", "=="), "=="),
    **dict.fromkeys(("!equals", "notequals", "!="), "!="),
    **dict.fromkeys(("great", ">"), ">"),
    **dict.fromkeys(("greateeq", "greatereq", ">="), ">="),
    **dict.fromkeys(("less", "<"), "<"),
    **dict.fromkeys(("lesseq", "<="), "<="),
}
# Functions that make a moment of the only text that they get, in the zone of the script.
MOMENTS = frozenset({"unixtimestamp", "curstamp", "to_timestamp"})
# Functions whose result is an item of their first argument.
ITEMS = frozenset({"get", "element_at", "array_max", "array_min", "array_first", "array_last"})
MOMENT_ITEMS = re.compile(r"array<timestamp>|map<[^<>]+, ?timestamp>")
JOINED = {"and": "&", "&": "&", "or": "|", "|": "|"}


@dataclass(frozen=True, slots=True)
class Scope:
    """The known fields with their Spark types (None: unknown), and how bare words are read."""

    text: str
    step: str
    fields: Mapping[str, str | None]
    zone: str = "UTC"
    strict: bool = False

    def with_fields(self, fields: Mapping[str, str | None]) -> Scope:
        """The same text over other fields."""
        return Scope(self.text, self.step, MappingProxyType(dict(fields)), self.zone, self.strict)

    def error(self, what: str, at: int, *, remedy: str = "") -> LanguageError:
        """The error for a fault at a position of the text."""
        return LanguageError(what, self.text, at, remedy=remedy, step=self.step)


def bind(value: Value, scope: Scope) -> Sql:  # noqa: PLR0911  one a kind of value
    """`value` as Spark SQL; LanguageError for a function, field or literal that does not fit."""
    match value:
        case Word():
            return _word(value, scope)
        case Text(text):
            return Sql(quote(text), "string", literal=text, quoted=True)
        case Number(digits):
            return (
                Sql(f"{digits}D", "double", literal=digits) if "." in digits else Sql(digits, "bigint", literal=digits)
            )
        case Compare(operator, left, right):
            return _compared(operator, left, right, scope)
        case Both(operator, parts):
            return both(operator, [bind(each, scope) for each in parts])
        case Not(part):
            return negated(bind(part, scope))
        case Call():
            return _call(value, scope)


def _word(word: Word, scope: Scope) -> Sql:
    if word.name in scope.fields:
        return Sql(quote_name(word.name), scope.fields[word.name])
    constant = CONSTANTS.get(word.name.lower())
    if constant is not None:
        return constant
    begin = re.split(r"[.-]", word.name, maxsplit=1)[0]
    if begin != word.name and begin in scope.fields:
        remedy = f"write a text in quotes: '{word.name}'; to subtract, write subtraction(a,b)"
        raise scope.error(f"there is no field {word.name!r}, but {begin!r}", word.at, remedy=remedy)
    if scope.strict:
        near = next((each for each in scope.fields if each.casefold() == word.name.casefold()), None)
        hint = f"did you mean {near!r}? " if near else ""
        raise scope.error(
            f"there is no field {word.name!r}",
            word.at,
            remedy=f"{hint}the fields are: {', '.join(scope.fields)}; write texts in quotes",
        )
    return Sql(quote(word.name), "string", literal=word.name, quoted=True)


def _compared(operator: str, left: Value, right: Value, scope: Scope) -> Sql:
    one, other = bind(left, scope), bind(right, scope)
    if "string" in (one.kind, other.kind):
        one, other = local(one, scope), local(other, scope)
    return compared(operator, one, other, scope.zone)


def local(value: Sql, scope: Scope) -> Sql:
    """A timestamp as local time of the scope's zone, to match texts, which are written in local time."""
    if value.kind != "timestamp" or scope.zone == "UTC":
        return value
    return Sql(f"from_utc_timestamp({value.text}, '{scope.zone}')", value.kind)


def united(value: Sql, kind: str | None, scope: Scope) -> Sql:
    """A value among others of the type `kind`: as text if that is a text, a timestamp in local time."""
    return local(value, scope).as_type(kind) if kind == "string" else value


def _call(call: Call, scope: Scope) -> Sql:
    operator = CALLED.get(call.name.casefold())
    if operator is not None and len(call.arguments) == 2:
        return _compared(operator, *call.arguments, scope=scope)
    if call.name.casefold() in JOINED and call.arguments:
        return both(JOINED[call.name.casefold()], [bind(each, scope) for each in call.arguments])
    try:
        function = function_named(call.name, len(call.arguments))
        made = _arguments(function, call, scope)
        moment = _makes_moment(function, made)
        converted = (given(function.kind_at(p), each, scope, moment=moment) for p, each in enumerate(made))
        sql = function.sql(*(each.text for each in converted), zone=scope.zone)
    except LanguageError:
        raise
    except TopologyError as error:
        raise scope.error(error.what, call.at, remedy=error.remedy) from error
    if len(sql) > LONGEST_SQL:
        raise scope.error("calls are nested too deeply", call.at, remedy="assign inner calls to fields: x=...")
    kind = function.type_of(*(each.text for each in made)) or united_types(
        [each.kind for each in _alike(function, made)]
    )
    return Sql(sql, _moments(function, made) if kind == UNKNOWN else kind)


def _moments(function: Function, made: list[Sql]) -> str | None:
    """The type of a result that is an item of its arguments, or has their items, if these are timestamps."""
    kinds = {each.kind for each in _alike(function, made)}
    if function.name in ITEMS:
        return "timestamp" if MOMENT_ITEMS.fullmatch(made[0].kind or "") else None
    return "array<timestamp>" if kinds == {"array<timestamp>"} else None


def _makes_moment(function: Function, made: list[Sql]) -> bool:
    """Whether a call makes a moment of its first argument."""
    if function.name == "cast":
        return (made[1].literal or "").lower() in ("timestamp", "datetime")
    return function.name in MOMENTS and len(function.parameters) == 1


def given(kind: str, value: Sql, scope: Scope, *, moment: bool = False) -> Sql:
    """An argument for a parameter of a kind; a timestamp for one of any type is an instant, as it is."""
    if kind == "any":
        return value
    if (moment or kind == "timestamp") and value.kind == "timestamp":
        # With its zone: a local time of the hour that comes twice a year is not one moment.
        return Sql(f"concat(cast({value.text} as string), 'Z')", "string")
    return local(value, scope)


def _arguments(function: Function, call: Call, scope: Scope) -> list[Sql]:
    made = [
        _literal(value, scope) if function.kind_at(place) in LITERALS else bind(value, scope)
        for place, value in enumerate(call.arguments)
    ]
    if function.returns:
        return made
    # Their common type is the result: Spark would cast texts to numbers, and raise.
    kind = united_types([each.kind for each in _alike(function, made)])
    return [united(each, kind, scope) if function.kind_at(place) == "any" else each for place, each in enumerate(made)]


def _alike(function: Function, made: list[Sql]) -> list[Sql]:
    return [each for place, each in enumerate(made) if function.kind_at(place) == "any"]


def _literal(value: Value, scope: Scope) -> Sql:
    """An argument that must be a literal: a bare word is read as a text."""
    if isinstance(value, Word) and value.name.lower() != "null":
        return Sql(quote(value.name), "string", literal=value.name, quoted=True)
    return bind(value, scope.with_fields({}))
