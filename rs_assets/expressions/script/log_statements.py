"""Statements that parse the line of a log into fields of its record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rs_assets.common.plural import count_of
from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.builtin.grok import Matcher, match_groups, matcher
from rs_assets.expressions.functions.builtin.log_pairs import pairs_map
from rs_assets.expressions.functions.literals import quote, quote_name, separated_by
from rs_assets.expressions.functions.patterns import fault_of, groups_of
from rs_assets.expressions.script.record_statements import remove_fields
from rs_assets.expressions.syntax.bind import bind
from rs_assets.expressions.syntax.tree import Call, Number, Text, Value, Word
from rs_assets.expressions.syntax.typed import Sql
from rs_assets.records.grok.expand import expanded

if TYPE_CHECKING:
    from rs_assets.expressions.script.binder import Binder, Command


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


def add_grok(binder: Binder, call: Call, _guard: str) -> None:  # a pattern is known from its line on
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


def split_line(binder: Binder, call: Call, guard: str) -> None:
    """`paserBySplit(line,'|',a,b)`: a field for each part between separators, instead of the line."""
    _at_least(binder, call, 3, f"{call.name}(line,'|',first,second)")
    _parted(binder, call, guard, literal(binder, call, 1, "separator"), 2)


def split_by_comma(binder: Binder, call: Call, guard: str) -> None:
    """`paserByComma(line,a,b)`: a field for each part between commas, instead of the line."""
    _at_least(binder, call, 2, f"{call.name}(line,first,second)")
    _parted(binder, call, guard, ",", 1)


def split_by_code(binder: Binder, call: Call, guard: str) -> None:
    """`paserByAsciiSplit(line,1,a,b)`: a field for each part between characters of a code, instead of the line."""
    _at_least(binder, call, 3, f"{call.name}(line,1,first,second)")
    given = call.arguments[1]
    digits = given.digits if isinstance(given, Number) else given.text if isinstance(given, Text) else ""
    if not re.fullmatch(r"[0-9]{1,3}", digits) or not 0 < int(digits) < 256:
        what = f"the separator of {call.name} must be the code of a character"
        raise binder.scope.error(what, call.at, remedy="write a whole number from 1 to 255: 9 is a tabulator")
    _parted(binder, call, guard, chr(int(digits)), 2)


def split_by_regex(binder: Binder, call: Call, guard: str) -> None:
    """`paserByRegex(line,'(a+) (b+)',a,b)`: a field for each group of a pattern of the line, instead of the line."""
    _at_least(binder, call, 2, f"{call.name}(line,'([a-z]+) (.*)',first,second)")
    pattern, line = literal(binder, call, 1, "pattern"), _line(binder, call)
    fault = fault_of(pattern)
    if fault is not None:
        remedy = "write a Java regular expression: '([a-z]+) (.*)'"
        raise binder.scope.error(f"the pattern of {call.name} is wrong: {fault}", call.arguments[1].at, remedy=remedy)
    known = groups_of(pattern)
    names = _names(binder, call, 2, line) or [f"f{number}" for number in range(1, known + 1)]
    if not known or len(names) > known:
        what = f"the pattern of {call.name} has {count_of(known, 'group')} for {count_of(len(names), 'field')}"
        raise binder.scope.error(what, call.at, remedy="put each field in brackets: '([a-z]+) (.*)'")
    found = binder.hidden(match_groups(_text(line), rf"\A(?:{pattern})\z", range(1, len(names) + 1)))
    _instead(binder, line, {name: f"nullif(get({found}, {n}), '')" for n, name in enumerate(names, 1)}, guard, call.at)


def pairs(binder: Binder, call: Call, guard: str) -> None:
    """`parse_express(line,' ',src,dst)`: a field for each of these keys of a line of pairs, instead of the line."""
    _at_least(binder, call, 3, f"{call.name}(line,' ',src,dst)")
    line, separator = _line(binder, call), quote(literal(binder, call, 1, "separator"))
    try:
        found = binder.hidden(pairs_map({"s": _text(line), "sep": separator}))
    except TopologyError as error:
        raise binder.scope.error(error.what, call.at, remedy=error.remedy) from error
    keys = _names(binder, call, 2, line)
    _instead(binder, line, {key: f"try_element_at({found}, {quote(key)})" for key in keys}, guard, call.at)


def _at_least(binder: Binder, call: Call, least: int, example: str) -> None:
    if len(call.arguments) < least:
        raise binder.scope.error(f"{call.name} has too few arguments", call.at, remedy=f"write {example}")


def _line(binder: Binder, call: Call) -> str:
    """The field with the line."""
    return binder.names(Call(call.name, call.arguments[:1], call.at))[0]


def _text(line: str) -> str:
    return f"cast({quote_name(line)} as string)"


def _names(binder: Binder, call: Call, begin: int, line: str) -> list[str]:
    """The names of the fields; one that is empty is the name of the line and its place."""
    given = [literal(binder, call, place, "name of a field") for place in range(begin, len(call.arguments))]
    twice = next((name for name in given if name and given.count(name) > 1), None)
    if twice is not None:
        raise binder.scope.error(f"{call.name} has two fields {twice!r}", call.at, remedy="choose another name")
    return [name or f"{line}{place}" for place, name in enumerate(given)]


def _parted(binder: Binder, call: Call, guard: str, separator: str, begin: int) -> None:
    if not separator:
        raise binder.scope.error(f"the separator of {call.name} is empty", call.at, remedy="write a blank: ' '")
    line = _line(binder, call)
    parts = binder.hidden(f"split({_text(line)}, {separated_by(quote(separator))})")
    names = _names(binder, call, begin, line)
    _instead(binder, line, {name: f"get({parts}, {n})" for n, name in enumerate(names)}, guard, call.at)


def _instead(binder: Binder, line: str, values: Mapping[str, str], guard: str, at: int) -> None:
    """Assigns texts to fields, where there are any, and removes the line."""
    for name, value in values.items():
        assign_found(binder, name, Sql(value, "string"), guard, at)
    if line not in values:
        binder.flush()
        remove_fields(binder, [line], guard, at)


LOG_STATEMENTS: Mapping[str, Command] = MappingProxyType(
    {
        "grok": grok,
        **dict.fromkeys(("addgrok", "add_grok"), add_grok),
        **dict.fromkeys(("split", "paserbysplit"), split_line),
        "paserbycomma": split_by_comma,
        "paserbyasciisplit": split_by_code,
        "paserbyregex": split_by_regex,
        **dict.fromkeys(("parse_express", "express"), pairs),
    }
)
