"""Parses the text of a script into statements."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.expressions.syntax.place import read
from rs_assets.expressions.syntax.tree import Both, Call, Compare, Not, Number, Text, Value, Word, text_of

if TYPE_CHECKING:
    from lark import Lark


@dataclass(frozen=True, slots=True)
class Assign:
    """`name=value`."""

    name: str
    value: Value
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Do:
    """A call that changes the record: `rm(a)`, `break()`."""

    call: Call
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """Tests with their statements, tried in order; `otherwise` if none holds."""

    branches: tuple[tuple[Value, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]
    at: int = field(default=0, compare=False)


Statement = Assign | Do | If
_EQUALS = {"=": "==", "<>": "!="}


@functools.lru_cache(maxsize=1024)
def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script; LanguageError shows where parsing failed, and what is expected there.

    >>> parse_script("x=trim(a);if(x==''){break()}")
    (Assign(name='x', value=Call(name='trim', arguments=(Word(name='a', at=7),), at=2), at=0), If(branches=((...
    >>> parse_script("x=trim(a")
    Traceback (most recent call last):
    rs_assets.expressions.syntax.place.LanguageError: line 1, column 9: the end is not allowed here; ...
        x=trim(a
                ^
      remedy: expected ...
    """
    found: tuple[Statement, ...] = read(_parser(), text, _script, what="script")
    return found


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("script.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _script(tree: Any) -> tuple[Statement, ...]:
    return _body(tree.children[0])


def _body(tree: Any) -> tuple[Statement, ...]:
    return tuple(map(_statement, tree.children))


def _statement(tree: Any) -> Statement:
    at = tree.meta.start_pos
    if tree.data == "assign":
        return Assign(str(tree.children[0]), _value(tree.children[1]), at)
    if tree.data == "call":
        return Do(_call(tree), at)
    # The first child is the word `if`.
    tests = [_value(each.children[0]) for each in tree.children[1:] if each.data == "test"]
    bodies = [_body(each.children[0]) for each in tree.children[1:] if each.data == "block"]
    otherwise = bodies[-1] if len(bodies) > len(tests) else ()
    return If(tuple(zip(tests, bodies, strict=False)), otherwise, at)


def _call(tree: Any) -> Call:
    return Call(str(tree.children[0]), tuple(map(_value, tree.children[1:])), tree.meta.start_pos)


def _value(tree: Any) -> Value:  # noqa: PLR0911  one a rule of the grammar
    at, parts = tree.meta.start_pos, tree.children
    match tree.data:
        case "call":
            return _call(tree)
        case "field":
            return Word(str(parts[0]), at)
        case "number":
            return Number(str(parts[0]), at)
        case "quoted":
            return Text(text_of(str(parts[0])), at)
        case "negated":
            return Not(_value(parts[-1]), at)
        case "compare":
            operator = str(parts[1])
            return Compare(_EQUALS.get(operator, operator), _value(parts[0]), _value(parts[2]), at)
    joined = tuple(_value(part) for part in parts if not isinstance(part, str))
    return Both("|" if tree.data == "any" else "&", joined, at)
