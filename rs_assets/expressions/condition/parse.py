"""Parses the text of a condition into a tree."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.expressions.condition.operators import OPERATORS, TYPES
from rs_assets.expressions.syntax.place import LanguageError, read
from rs_assets.expressions.syntax.tree import Both, Call, Not, Number, Text, Value, Word, text_of

if TYPE_CHECKING:
    from lark import Lark

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SHAPE = "write an atom as (field,operator,value) or (field,operator,type,value)"


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison: `operator` is canonical, `kind` the type word or empty, `value` None if there is no value."""

    left: Value
    operator: str
    kind: str
    value: str | None
    at: int = field(default=0, compare=False)
    value_at: int = field(default=0, compare=False)


Condition = Atom | Both | Not


@functools.lru_cache(maxsize=1024)
def parse_condition(text: str) -> Condition:
    """The tree of a condition; LanguageError shows where parsing failed, and what is expected there.

    >>> parse_condition("(age,>,int,18)|!(name,isNull)")
    Both(operator='|', parts=(Atom(left=Word(name='age', at=1), operator='>', kind='int', value='18', at=0, ...
    >>> parse_condition("(age,>)")
    Traceback (most recent call last):
    rs_assets.expressions.syntax.place.LanguageError: line 1, column 1: a comparison has 3 or 4 parts, not 2
        (age,>)
        ^
      remedy: write an atom as (field,operator,value) or (field,operator,type,value)
    """
    found: Condition = read(_parser(), text, functools.partial(_made, text=text), what="condition")
    return found


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("condition.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _made(tree: Any, *, text: str) -> Condition:
    """A lark tree as a condition."""
    at = tree.meta.start_pos
    match tree.data:
        case "any" | "all":
            parts = tuple(_made(each, text=text) for each in tree.children)
            return Both("|" if tree.data == "any" else "&", parts, at)  # type: ignore[arg-type]
        case "negated":
            return Not(_made(tree.children[-1], text=text), at)  # type: ignore[arg-type]
    return _atom(tree, text)


def _atom(tree: Any, text: str) -> Atom:
    left, operator, *rest = tree.children
    if operator.data == "call":
        raise LanguageError("a call cannot be an operator", text, operator.meta.start_pos, remedy=_SHAPE)
    written = _plain(operator).replace("&gt;", ">").replace("&lt;", "<")
    known = OPERATORS.get(written.casefold())
    if known is None:
        remedy = f"use one of: {' '.join(OPERATORS)}"
        raise LanguageError(f"unknown operator {written!r}", text, operator.meta.start_pos, remedy=remedy)
    kind = ""
    if len(rest) == 2:
        kind = _plain(rest[0]).lower() if rest[0].data != "call" else ""
        if kind not in TYPES:
            remedy = f"the third of four parts is a type, one of: {' '.join(TYPES)}; write a list as one text: 'a,b'"
            raise LanguageError(f"{kind!r} is not a type", text, rest[0].meta.start_pos, remedy=remedy)
    if len(rest) > 2 or (not rest and known not in ("isnull", "isnotnull")):
        what = f"a comparison has 3 or 4 parts, not {len(rest) + 2}"
        raise LanguageError(what, text, tree.meta.start_pos, remedy=_SHAPE)
    value = rest[-1] if rest else None
    if value is not None and value.data == "call":
        remedy = "put the call on the left, or compute it in a script first"
        raise LanguageError("the value must be a constant", text, value.meta.start_pos, remedy=remedy)
    return Atom(
        _value(left),
        known,
        kind,
        _plain(value) if value is not None else None,
        tree.meta.start_pos,
        value.meta.start_pos if value is not None else tree.meta.start_pos,
    )


def _plain(tree: Any) -> str:
    token = str(tree.children[0])
    return text_of(token) if tree.data == "quoted" else token.strip()


def _value(tree: Any) -> Value:
    at = tree.meta.start_pos
    if tree.data == "call":
        name, *arguments = tree.children
        return Call(str(name).strip(), tuple(map(_value, arguments)), at)
    plain = _plain(tree)
    if tree.data == "quoted":
        return Text(plain, at)
    return Number(plain, at) if _NUMBER.fullmatch(plain) else Word(plain, at)
