"""Grok patterns as Spark SQL: one match gives all fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import quote, quote_name, unquote
from rs_assets.expressions.functions.patterns import fault_of, named_groups
from rs_assets.expressions.functions.udf import TableFunction
from rs_assets.records.grok.expand import EXAMPLE, Captured, expanded

_row = Family("grok").row
# Precedes each group of a match; a text that has it is matched once for each group.
MARK: Final = "'\\u0001'"


@dataclass(frozen=True, slots=True)
class Matcher:
    """A checked grok pattern: its Java expression, its fields, and the numbers of their groups."""

    pattern: str
    fields: tuple[Captured, ...]
    numbers: Mapping[str, int]

    @property
    def schema(self) -> tuple[tuple[str, str], ...]:
        """The names and Spark types of the fields."""
        return tuple((each.name, each.kind) for each in self.fields)

    def groups(self, text: str) -> str:
        """The SQL of an array: an empty text, and the texts of the groups of fields in order; one item without match.

        A group that is not part of the match is an empty text. The leftmost match counts, as in `regexp_extract`.
        """
        return match_groups(text, self.pattern, [self.numbers[group] for group in self._order])

    def value(self, field: Captured, groups: str) -> str:
        """The SQL of a field from the array of `groups`; null for what is empty or has another type."""
        places = [self._order.index(group) + 1 for group in field.groups]
        return _typed([f"get({groups}, {place})" for place in places], field.kind)

    def struct(self, text: str) -> str:
        """The SQL of a struct of all fields; null without a match."""
        parts = ", ".join(f"{quote(each.name)}, {self.value(each, 'o')}" for each in self.fields)
        return f"get(transform(array({self.groups(text)}), o -> if(size(o) > 1, named_struct({parts}), null)), 0)"

    def one(self, name: str, text: str) -> str:
        """The SQL of one field."""
        field = self.field(name)
        found = [f"regexp_extract({text}, {quote(self.pattern)}, {self.numbers[group]})" for group in field.groups]
        return _typed(found, field.kind)

    def field(self, name: str) -> Captured:
        """The field with a name; TopologyError if there is none."""
        found = next((each for each in self.fields if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in self.fields)
            raise TopologyError(f"the grok pattern has no field {name!r}", remedy=f"its fields are: {known}")
        return found

    @property
    def _order(self) -> list[str]:
        return [group for each in self.fields for group in each.groups]


def match_groups(text: str, pattern: str, numbers: Sequence[int]) -> str:
    """The SQL of an array: an empty text, and the texts of the groups of the leftmost match; one item without match.

    A group that is not part of the match is an empty text. `pattern` is valid.
    """
    whole = quote(rf"(?s:\A.*?)(?:{pattern})(?s:.*\z)")
    parts = f"concat({', '.join(part for number in numbers for part in (MARK, quote(f'${number}')))})"
    single = ", ".join(["''", *(f"regexp_extract({text}, {quote(pattern)}, {number})" for number in numbers)])
    return (
        f"case when instr({text}, {MARK}) = 0 then split(regexp_replace({text}, {whole}, {parts}), {MARK})"
        f" when {text} rlike {quote(pattern)} then array({single}) else array({text}) end"
    )


def _typed(texts: list[str], kind: str) -> str:
    found = [f"nullif({text}, '')" for text in texts]
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return value if kind == "string" else f"try_cast({value} as {kind})"


def matcher(text: str, own: Mapping[str, str] = MappingProxyType({})) -> Matcher:
    """The checked pattern of a grok text; TopologyError if it is wrong.

    >>> matcher("%{WORD:page} %{INT:ms:int}").schema
    (('page', 'string'), ('ms', 'bigint'))
    """
    return _matcher(text, tuple(own.items()))


@lru_cache(maxsize=100)
def _matcher(text: str, own: tuple[tuple[str, str], ...]) -> Matcher:
    made = expanded(text, dict(own))
    fault = fault_of(made.pattern)
    if fault is not None:
        raise TopologyError(f"the grok pattern {text!r} is wrong: {fault}", remedy=f"write it as {EXAMPLE}")
    return Matcher(made.pattern, made.fields, MappingProxyType(named_groups(made.pattern)))


def _called(texts: Mapping[str, str]) -> Matcher:
    pattern = unquote(texts["p"])
    if pattern is None:
        raise TopologyError("the grok pattern is null", remedy=f"write it as {EXAMPLE}")
    return matcher(pattern)


def _wanted(texts: Mapping[str, str]) -> str:
    return unquote(texts["field"]) or ""


def _struct_type(texts: Mapping[str, str]) -> str:
    return f"struct<{','.join(f'{quote_name(name)}:{kind}' for name, kind in _called(texts).schema)}>"


_LINE: Final = "'7.7.7.7 GET 12'"
_LOG: Final = "'%{IP:client} %{WORD:verb} %{INT:bytes:int}'"

GROK: Final = (
    _row(
        "grok",
        "s text, p pattern",
        lambda texts: _called(texts).struct(texts["s"]),
        _struct_type,
        "A struct of the fields of a grok pattern, which is found anywhere; null if it is not.",
        {
            f"grok({_LINE},{_LOG})": ("7.7.7.7", "GET", 12),
            f"grok('none',{_LOG})": None,
        },
    ),
    _row(
        "grok",
        "s text, p pattern, field word",
        lambda texts: _called(texts).one(_wanted(texts), texts["s"]),
        lambda texts: _called(texts).field(_wanted(texts)).kind,
        "One field of a grok pattern; null if the pattern is not found, or the field is empty.",
        {
            f"grok({_LINE},{_LOG},'client')": "7.7.7.7",
            f"grok({_LINE},{_LOG},'bytes')": 12,
            f"grok('none',{_LOG},'bytes')": None,
        },
    ),
)


def _rows(texts: Mapping[str, str]) -> str:
    return f"filter(array({_called(texts).struct(texts['s'])}), o -> o is not null)"


GROK_ROWS: Final = TableFunction(
    _row(
        "grok",
        "s text, p pattern",
        _rows,
        lambda texts: f"array<{_struct_type(texts)}>",
        "A row with the fields of a grok pattern; none if the pattern is not found.",
    ),
    (),
    lambda texts: _called(texts).schema,
)
