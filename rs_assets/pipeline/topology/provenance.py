"""Which fields of the sources each column of a sink is made of, as far as the topology says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.expression import SqlText
from rs_assets.pipeline.topology.source import Source
from rs_assets.pipeline.topology.step import FlatMap, Map, SelectFields, WithFields
from rs_assets.pipeline.topology.topology import Topology
from rs_assets.pipeline.topology.window import WINDOW_FIELDS, WindowAggregate

# A field of a source; "*" stands for any of its fields, where code decides.
Field = tuple[str, str]
Fields = frozenset[Field]
# What a step's columns are made of; the entry "*" is for all that are not named.
Columns = Mapping[str, Fields]
ANY = "*"
# A name that no bracket follows: with one it is a function.
_WORD = re.compile(r"`([^`]+)`|\b([A-Za-z_][A-Za-z0-9_]*)\b(?!\s*\()")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'")


def provenance(topology: Topology, step: str) -> Columns:
    """What the columns behind `step` are made of.

    Columns that are handed on unchanged, by the steps that say so, keep their field; SQL text is searched for the
    names of fields; a Python function or a Column may use any field.
    """
    node = topology[step]
    if isinstance(node, Source) and not node.follows:
        return _Passed(step)
    above = _united(provenance(topology, name) for name in node.follows)
    return RULES.get(type(node), _unchanged)(node, above)


def fields_of(columns: Columns, name: str) -> Fields:
    """What the column `name` is made of."""
    if isinstance(columns, _Passed):
        return frozenset({(columns.source, name)})
    found = columns.get(name)
    if found is not None:
        return found
    rest = columns.get(ANY, frozenset())
    return frozenset((source, name if field == ANY else field) for source, field in rest)


class _Passed(dict[str, Fields]):
    """The columns of a source: each is itself."""

    def __init__(self, source: str) -> None:
        super().__init__({ANY: frozenset({(source, ANY)})})
        self.source = source


def _united(inputs: Iterable[Columns]) -> Columns:
    every = list(inputs)
    if len(every) == 1:
        return every[0]
    names = {name for columns in every for name in columns}
    return {name: frozenset().union(*(fields_of(c, name) if name != ANY else c[ANY] for c in every)) for name in names}


def _all(columns: Columns) -> Fields:
    """Any field: for code that nobody reads."""
    return frozenset((source, ANY) for fields in columns.values() for source, _ in fields)


def _named(expression: object, columns: Columns) -> Fields:
    """The fields whose names stand in SQL text."""
    if not isinstance(expression, SqlText):
        return _all(columns)
    words = {quoted or plain for quoted, plain in _WORD.findall(_STRING.sub("", expression.text))}
    return frozenset(f for word in words if word.lower() not in SQL_WORDS for f in fields_of(columns, word))


def _unchanged(node: Node, above: Columns) -> Columns:  # noqa: ARG001  the table's form
    return above


def _selected(node: SelectFields, above: Columns) -> Columns:
    return {name: fields_of(above, name) for name in node.fields}


def _added(node: WithFields, above: Columns) -> Columns:
    return {**above, **{name: _named(expression, above) for name, expression in node.columns}}


def _computed(node: Map | FlatMap, above: Columns) -> Columns:  # noqa: ARG001  the table's form
    return {ANY: _all(above)}


def _windowed(node: WindowAggregate, above: Columns) -> Columns:
    at = fields_of(above, node.window.time_field) if node.window.time_field else frozenset()
    return {
        **{name: fields_of(above, name) for name in node.group_by},
        **{a.alias: fields_of(above, a.field) if a.field else frozenset() for a in node.aggregates},
        **dict.fromkeys(WINDOW_FIELDS, at),
    }


RULES: Mapping[type[Node], Callable[[Any, Columns], Columns]] = MappingProxyType(
    {SelectFields: _selected, WithFields: _added, Map: _computed, FlatMap: _computed, WindowAggregate: _windowed}
)
# Words of SQL that are no fields, where they stand unquoted in an expression.
SQL_WORDS = frozenset(
    (
        *("and", "or", "not", "null", "true", "false", "is", "in", "like", "rlike", "between", "case", "when", "then"),
        *("else", "end", "cast", "as", "interval", "timestamp", "date", "string", "int", "bigint", "double", "boolean"),
    )
)
