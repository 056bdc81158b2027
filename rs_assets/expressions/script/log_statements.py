"""Statements that parse the line of a log into fields of its record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.grok import Matcher, matcher
from rs_assets.expressions.functions.patterns import fault_of
from rs_assets.expressions.syntax.bind import bind
from rs_assets.expressions.syntax.tree import Call, Text, Value, Word
from rs_assets.expressions.syntax.typed import Sql
from rs_assets.records.grok.expand import expanded

if TYPE_CHECKING:
    from rs_assets.expressions.script.bind import Binder


def grok(binder: Binder, call: Call, guard: str) -> None:
    """`grok(line,'%{IP:client} %{INT:ms:int}')`: adds the fields of the pattern, which is found anywhere.

    A field for which nothing was found is null, or what it was before.
    """
    if len(call.arguments) != 2:
        remedy = f"write {call.name}(line,'%{{IP:client}} %{{INT:ms:int}}')"
        raise binder.scope.error(f"{call.name} takes a text and a pattern", call.at, remedy=remedy)
    made = _matcher(binder, call)
    groups = binder.hidden(made.groups(text_of(binder, call.arguments[0])))
    for field in made.fields:
        assign_found(binder, field.name, Sql(made.value(field, groups), field.kind), guard, call.at)


def _matcher(binder: Binder, call: Call) -> Matcher:
    pattern = literal(binder, call, 1, "pattern")
    try:
        return matcher(pattern, binder.patterns)
    except TopologyError as error:
        raise binder.scope.error(error.what, call.arguments[1].at, remedy=error.remedy) from error


def add_grok(binder: Binder, call: Call, guard: str) -> None:  # noqa: ARG001  a pattern is known from its line on
    """`addGrok(NAME,'[A-Z]+')`: a pattern for the calls of `grok` that follow."""
    if len(call.arguments) != 2:
        raise binder.scope.error(
            f"{call.name} takes a name and a pattern", call.at, remedy=f"write {call.name}(LEVEL,'[A-Z]+')"
        )
    name, pattern = literal(binder, call, 0, "name"), literal(binder, call, 1, "pattern")
    if not re.fullmatch(r"\w+", name):
        what = f"{name!r} is not the name of a pattern"
        raise binder.scope.error(what, call.at, remedy="use letters, digits and _: LEVEL")
    try:
        # As it is used: with a field.
        fault = fault_of(expanded(f"(?<used>{pattern})", binder.patterns).pattern)
    except TopologyError as error:
        raise binder.scope.error(error.what, call.at, remedy=error.remedy) from error
    if fault is not None:
        remedy = "write a Java regular expression, with names of others as %{WORD}"
        raise binder.scope.error(f"the pattern of {name} is wrong: {fault}", call.arguments[1].at, remedy=remedy)
    binder.patterns[name] = pattern


def text_of(binder: Binder, value: Value) -> str:
    """The SQL of a value as a text."""
    made = bind(value, binder.scope.with_fields(binder.fields))
    return f"cast({made.text} as string)"


def literal(binder: Binder, call: Call, place: int, what: str) -> str:
    """The text of an argument that must be a literal, or a bare word."""
    given = call.arguments[place]
    if isinstance(given, Text):
        return given.text
    if isinstance(given, Word):
        return given.name
    raise binder.scope.error(f"the {what} of {call.name} must be a literal", call.at, remedy="write it in quotes")


def assign_found(binder: Binder, name: str, value: Sql, guard: str, at: int) -> None:
    """Assigns a value where it is not null: a field that exists keeps its value elsewhere."""
    if name in binder.fields:
        guard = f"{value.text} is not null" + (f" and {guard}" if guard else "")
    binder.assign(name, value, guard, at)


LOG_STATEMENTS: Mapping[str, Callable[[Binder, Call, str], None]] = MappingProxyType(
    {
        "grok": grok,
        **dict.fromkeys(("addgrok", "add_grok"), add_grok),
    }
)
