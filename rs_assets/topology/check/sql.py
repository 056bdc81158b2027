"""Checks SQL text: its syntax, the fields that it names, and its result.

sqlglot reads most of Spark's dialect, and misreads some words. So a text that it rejects is rejected here only if Spark
certainly rejects it too; all else is left to Spark, which analyses every step before it reads a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.records.fields import UNKNOWN, Fields, Types
from rs_assets.records.types import Type, type_in

if TYPE_CHECKING:
    from sqlglot import exp

# Parsed as part of a query: alone, some words would begin a statement.
_HEAD = "SELECT "
# Functions that Spark calls without brackets, and hidden columns.
_NO_FIELDS = re.compile(r"(?i)current_\w+|user|session_user|_metadata|_rs_\w*")
# Valid in Spark, unknown to sqlglot: a path into a variant, a blank in x'1F', names without AS inside struct(),
# a reserved word as an alias.
_UNREAD = re.compile(r"(?i)(?<!:):(?!:)|\bx\s+['\"]|\bstruct\s*\(|\bas\s+`?\w+`?\s*$")
# The errors that sqlglot raises when it is lost.
_LOST = (LookupError, AttributeError, TypeError, ValueError, RecursionError)
_PATH = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`))*")
_BRACKET_TOKENS = ("L_PAREN", "R_PAREN", "L_BRACKET", "R_BRACKET")
_BRACKETS: Mapping[str, str] = MappingProxyType({")": "(", "]": "["})


@dataclass(frozen=True, slots=True)
class Read:
    """A parsed SQL text: a tree, or none and maybe a fault, which is `sure` or depends on the names of fields."""

    tree: Any = None
    fault: str = ""
    sure: bool = False
    keywords: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Item:
    """The result of an expression: fields with their types, or None if some are unknown here."""

    fields: Types | None
    type: Type | None = None


def check_sql(text: str, fields: Fields, *, step: str, before: Types = MappingProxyType({})) -> Item:
    """The result of `text` over `fields`; TopologyError for a certain syntax error, or an unknown field.

    `before` are the names that earlier parts of a select list define.
    """
    read = read_sql(text)
    if read.fault and (read.sure or not any(fields.has(word) for word in read.keywords)):
        raise TopologyError(
            f"step {step!r}: the SQL {text.strip()!r} does not parse: {read.fault}",
            remedy="write it as Spark SQL, texts in single quotes: \"amount > 1 AND status = 'paid'\"",
            step=step,
        )
    if read.tree is None:
        return Item(None)
    _check_names(read.tree, Fields({**before, **fields.types}, fields.whole), fields, step=step)
    return Item(_outputs(read.tree, fields, text), _type_of(read.tree, fields))


@lru_cache(maxsize=4096)
def read_sql(text: str) -> Read:
    """`text`, one expression, as sqlglot parses it.

    >>> read_sql("amount > 1").tree.sql()
    'amount > 1'
    >>> read_sql("(amount > 1").fault
    "'(' is not closed"
    """
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except TokenError:
        return Read(fault="a quote or a comment is not closed", sure=True)
    unbalanced = _unbalanced([token.text for token in tokens if token.token_type.name in _BRACKET_TOKENS])
    if unbalanced:
        return Read(fault=unbalanced, sure=True)
    keywords = frozenset(t.text for t in tokens if t.token_type.name != "VAR" and re.fullmatch(r"[A-Za-z_]\w*", t.text))
    try:
        # sqlglot treats both shifts the same.
        query = sqlglot.parse_one(_HEAD + text.replace(">>>", ">>"), read="spark")
    except ParseError as error:
        known = _function_wants_more(error) or _UNREAD.search(text) is not None
        return Read() if known else Read(fault=_where(error), keywords=keywords)
    except _LOST:
        return Read()
    return _of_query(query)


def _of_query(query: Any) -> Read:
    if query.key != "select" or any(value for name, value in query.args.items() if name != "expressions"):
        return Read()
    parts = query.expressions
    if len(parts) != 1:
        return Read(fault="it is a list: pass one text for each expression", sure=bool(parts))
    return Read(tree=parts[0])


def _unbalanced(brackets: list[str]) -> str:
    waiting: list[str] = []
    for bracket in brackets:
        if bracket not in _BRACKETS:
            waiting.append(bracket)
        elif not waiting or waiting.pop() != _BRACKETS[bracket]:
            return f"{bracket!r} closes nothing"
    return f"{waiting[-1]!r} is not closed" if waiting else ""


def _function_wants_more(error: Any) -> bool:
    """Whether sqlglot misses arguments of a function: its signatures differ from Spark's."""
    from sqlglot import exp

    said = error.errors[0]["description"] if error.errors else ""
    found = re.search(r"missing for <class '[\w.]+\.(\w+)'>", said)
    kind = getattr(exp, found.group(1), None) if found else None
    if kind is None:
        return "argument" in said
    return issubclass(kind, exp.Func) and not issubclass(kind, exp.Connector | exp.Binary)


def _where(error: Any) -> str:
    near = error.errors[0]["highlight"] if error.errors else ""
    after = error.errors[0]["end_context"] if error.errors else ""
    return f"something is wrong near {near!r}" if after.strip() else "it ends too early, or in a wrong word"


def _check_names(tree: exp.Expression, known: Fields, fields: Fields, *, step: str) -> None:
    from sqlglot import exp

    if not known.whole or tree.find(exp.Query) is not None:
        return
    for column in tree.find_all(exp.Column):
        path = [part.name for part in column.parts]
        if not known.has(path[0]) and path[0] != "*" and not _NO_FIELDS.fullmatch(path[0]):
            hint = f"a text needs quotes: '{path[0]}'" if isinstance(column.parent, exp.EQ | exp.NEQ | exp.In) else ""
            raise UnknownFieldError(path[0], step=step, known=tuple(fields.types), hint=hint)
        _check_members(path, known, step=step)


def _check_members(path: list[str], known: Fields, *, step: str) -> None:
    """UnknownFieldError for an unknown part of a struct."""
    kind = known.type_of(known.find(path[0]) or "")
    for depth, name in enumerate(path[1:], start=1):
        if kind is None or kind.name != "struct" or name == "*":
            return
        members = Fields(dict(kind.parts))
        if not members.has(name):
            raise UnknownFieldError(".".join(path[: depth + 1]), step=step, known=tuple(_paths(path[:depth], members)))
        kind = members.type_of(members.find(name) or "")


def _paths(above: list[str], members: Fields) -> Iterator[str]:
    return (".".join([*above, name]) for name in members.types)


def _outputs(tree: exp.Expression, fields: Fields, text: str) -> Types | None:
    from sqlglot import exp

    if isinstance(tree, exp.Alias):
        return {tree.alias: _type_of(tree.this, fields)}
    if isinstance(tree, exp.Aliases):
        return dict.fromkeys(part.name for part in tree.expressions)
    if isinstance(tree, exp.Star):
        return dict(fields.types) if fields.whole and not any(tree.args.values()) else None
    # sqlglot takes `+ a` for the field; Spark uses it as the column's name.
    if isinstance(tree, exp.Column) and _PATH.fullmatch(text.strip()):
        return {tree.name: _type_of(tree, fields)}
    return None


def _type_of(tree: exp.Expression, fields: Fields) -> Type | None:
    """The type of the result of `tree`, None if it is unknown here."""
    from sqlglot import exp

    while isinstance(tree, exp.Paren | exp.Alias):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return _type_of_path([part.name for part in tree.parts], fields)
    if isinstance(tree, exp.Cast):
        return _type_of_cast(tree)
    if isinstance(tree, exp.Predicate | exp.Not | exp.And | exp.Or | exp.Boolean):
        return Type("boolean") if isinstance(tree, _booleans()) else None
    return Type("string") if isinstance(tree, exp.Literal) and tree.is_string else None


@cache
def _booleans() -> tuple[type, ...]:
    """Kinds of expressions whose result is always true, false or null."""
    from sqlglot import exp

    compared = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    return (*compared, exp.Between, exp.In, exp.Is, exp.Like, exp.Not, exp.And, exp.Or, exp.Boolean)


def _type_of_path(path: list[str], fields: Fields) -> Type | None:
    kind = fields.type_of(fields.find(path[0]) or "")
    for name in path[1:]:
        if kind is None or kind.name != "struct":
            return None
        members = Fields(dict(kind.parts))
        kind = members.type_of(members.find(name) or "")
    return kind


def _type_of_cast(tree: exp.Expression) -> Type | None:
    """The type that a cast names, if it means the same to sqlglot and to Spark."""
    named = type_in(tree.args["to"].sql(dialect="spark"))
    return named if named and not named.nested else None


def all_of(items: list[Item]) -> Fields:
    """The fields that a select list produces."""
    made: dict[str, Type | None] = {}
    for item in items:
        if item.fields is None:
            return UNKNOWN
        made.update(item.fields)
    return Fields(made)
