"""Expands grok patterns to Java regular expressions with a group for each field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rs_assets.errors import TopologyError

# The Spark type of each type word; Logstash's int and float have no limit.
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("int", "integer", "long", "bigint"), "bigint"),
        **dict.fromkeys(("float", "double", "number"), "double"),
        **dict.fromkeys(("boolean", "bool"), "boolean"),
        **dict.fromkeys(("string", "text"), "string"),
    }
)
_USED = re.compile(r"%\{(?P<name>\w+)(?::(?P<field>[^:{}]*))?(?::(?P<kind>[^:{}]*))?\}")
# Escapes come first, so that an escaped bracket opens no group.
_PART = re.compile(
    rf"\\k<(?P<again>\w+)>|(?P<number>\\[1-9])|\\.|(?P<used>{_USED.pattern})|\(\?P?<(?P<inline>\w+)>", re.DOTALL
)
_FIELD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"\w+")
# A pattern above this size names others many times over.
LONGEST: Final = 50_000
EXAMPLE: Final = "%{IP:client} %{WORD:verb} %{NUMBER:bytes:int}"


@dataclass(frozen=True, slots=True)
class Captured:
    """A field of a grok pattern: its Spark type, and the names of the groups that may have its value, in order."""

    name: str
    kind: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grok:
    """A Java regular expression, whose groups of the names g1, g2... are the `fields`."""

    pattern: str
    fields: tuple[Captured, ...]


@cache
def standard() -> Mapping[str, str]:
    """The expressions of the standard patterns, by name.

    >>> standard()["USER"], len(standard()) > 100
    ('%{USERNAME}', True)
    """
    lines = Path(__file__).with_name("standard.txt").read_text("utf-8").splitlines()
    pairs = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return MappingProxyType(dict(pairs))


def is_grok(text: str) -> bool:
    """Whether a pattern uses a named one.

    >>> is_grok("%{WORD:page}"), is_grok("(?P<page>[a-z]+)%{2}")
    (True, False)
    """
    return any(not found["name"].isdigit() for found in _USED.finditer(text))


def expanded(text: str, own: Mapping[str, str] = MappingProxyType({})) -> Grok:
    r"""The expression and the fields of a grok pattern; `own` are patterns besides the standard ones.

    `%{NAME:field}` and `(?<field>...)` make a field, `%{NAME:field:int}` one of another type (KINDS); `%{NAME}` makes
    none. Of several groups with one field that counts which has captured something. TopologyError for an unknown name,
    a wrong field or type, or a pattern without fields. The expression itself is not checked.

    >>> expanded(r"%{INT:ms:int} (?<rest>.*)")
    Grok(pattern='(?<g1>[+-]?[0-9]+) (?<g2>.*)', fields=(Captured(name='ms', kind='bigint', ...
    """
    reader = _Reader(MappingProxyType({**standard(), **own}))
    pattern = reader.read(text, ())
    if not reader.groups:
        raise TopologyError(f"the grok pattern {text!r} has no field", remedy=f"name a field: {EXAMPLE}")
    fields = tuple(Captured(name, reader.kinds[name], tuple(groups)) for name, groups in reader.groups.items())
    return Grok(pattern, fields)


def with_named_groups(text: str) -> str:
    r"""The expression of a grok pattern with Python's names of groups, as the `pattern` of text sources has them.

    TopologyError as of `expanded`, and if two groups have one field.

    >>> with_named_groups("%{WORD:page} %{INT:ms}")
    '(?P<page>\\b\\w+\\b) (?P<ms>[+-]?[0-9]+)'
    """
    made = expanded(text)
    twice = next((each.name for each in made.fields if len(each.groups) > 1), None)
    if twice is not None:
        raise TopologyError(
            f"the grok pattern {text!r} has two groups for {twice!r}",
            remedy="read whole lines, and parse them by the step script(\"grok(value,'...')\")",
        )
    names = {group: each.name for each in made.fields for group in each.groups}
    return re.sub(r"\(\?<(g[0-9]+)>", lambda found: f"(?P<{names[found[1]]}>", made.pattern)


@dataclass
class _Reader:
    """Expands a pattern from left to right, and numbers its groups."""

    patterns: Mapping[str, str]
    groups: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    length: int = 0

    def read(self, text: str, within: tuple[str, ...]) -> str:
        """`text` expanded, inside of the patterns `within`."""
        self.length += len(text)
        if self.length > LONGEST:
            raise TopologyError(
                f"the grok pattern is longer than {LONGEST} characters", remedy="split it into several calls"
            )
        return _PART.sub(lambda found: self._part(found, within), text)

    def _part(self, found: re.Match[str], within: tuple[str, ...]) -> str:
        if found["used"] and not found["name"].isdigit():
            return self._used(found, within)
        if found["inline"]:
            return f"(?<{self._group(found['inline'], 'string')}>"
        if found["again"] in self.groups:
            return rf"\k<{self.groups[found['again']][-1]}>"
        if found["number"]:
            raise TopologyError(
                f"the grok pattern has {found['number']!r}, a group by its number",
                remedy=r"name the group: (?<sign>['\"]).*\k<sign>",
            )
        return found[0]

    def _used(self, found: re.Match[str], within: tuple[str, ...]) -> str:
        name = found["name"]
        if name not in self.patterns:
            near = get_close_matches(name.upper(), self.patterns, n=1)
            remedy = f"did you mean %{{{near[0]}}}?" if near else "docs/logs.md lists the patterns; addGrok adds others"
            raise TopologyError(f"there is no grok pattern {name!r}", remedy=remedy)
        if name in within:
            raise TopologyError(f"the grok pattern {name!r} uses itself", remedy="write what is repeated as (?:...)*")
        group = self._group(found["field"], found["kind"] or "string") if found["field"] is not None else ""
        inside = self.read(self.patterns[name], (*within, name))
        return f"(?<{group}>{inside})" if group else f"(?:{inside})"

    def _group(self, name: str, kind: str) -> str:
        """The name of a new group for a field."""
        if not _FIELD.fullmatch(name):
            plain = "_".join(_NAME.findall(name)) or "field"
            raise TopologyError(
                f"{name!r} in the grok pattern is not the name of a field",
                remedy=f"use letters, digits and _: {plain if _FIELD.fullmatch(plain) else 'field'}",
            )
        if kind.lower() not in KINDS:
            raise TopologyError(
                f"unknown type {kind!r} of {name!r} in the grok pattern", remedy=f"use one of: {', '.join(KINDS)}"
            )
        if self.kinds.setdefault(name, KINDS[kind.lower()]) != KINDS[kind.lower()]:
            raise TopologyError(
                f"{name!r} has two types in the grok pattern", remedy="write one of them at both places"
            )
        other = next((each for each in self.groups if each.casefold() == name.casefold() and each != name), None)
        if other is not None:
            raise TopologyError(f"{name!r} and {other!r} differ by case only", remedy="choose another name")
        group = f"g{sum(map(len, self.groups.values())) + 1}"
        self.groups.setdefault(name, []).append(group)
        return group
