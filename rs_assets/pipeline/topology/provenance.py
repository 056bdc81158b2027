"""Which fields of the sources each column of a sink is made of, as far as the topology says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.engine.join.spec import OF_BOTH
from rs_assets.engine.window.result import Ranking
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.dim_join import DimJoin
from rs_assets.pipeline.topology.expression import SqlText
from rs_assets.pipeline.topology.fold import Fold
from rs_assets.pipeline.topology.join import PLACE_FIELDS, StreamJoin
from rs_assets.pipeline.topology.sink import DeltaSink
from rs_assets.pipeline.topology.source import Source
from rs_assets.pipeline.topology.step import FlatMap, Map, Script, SelectFields, WithFields
from rs_assets.pipeline.topology.topology import Topology
from rs_assets.pipeline.topology.window import WindowAggregate

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
    follows = node.follows
    if isinstance(node, DeltaSink) and node.late:
        # It gets rows as they came to the step, not those that the step makes.
        follows = topology[node.inputs[0]].follows
    inputs = [provenance(topology, name) for name in follows]
    above = GATHERED.get(type(node), _together)(node, inputs)
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


class _Prefixed(dict[str, Fields]):
    """The columns of a join: those of the right side stand behind a prefix, beside those of the left."""

    def __init__(self, left: Columns, right: Columns, prefix: str) -> None:
        super().__init__({ANY: left.get(ANY, frozenset()) | right.get(ANY, frozenset())})
        self.left, self.right, self.prefix = left, right, prefix

    def with_more(self, added: Columns) -> Columns:
        """These and `added`."""
        made = _Prefixed(self.left, self.right, self.prefix)
        made.update({**self, **added})
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """What the column `name` is made of, by the side that it comes from."""
        if name in self:
            return super().get(name, default)
        if name.startswith(self.prefix):
            return fields_of(self.right, name.removeprefix(self.prefix))
        return fields_of(self.left, name)


def _united(inputs: Iterable[Columns]) -> Columns:
    every = list(inputs)
    if len(every) == 1:
        return every[0]
    names = {name for columns in every for name in columns}
    return {
        name: frozenset().union(*(fields_of(c, name) if name != ANY else c.get(ANY, frozenset()) for c in every))
        for name in names
    }


def _more(columns: Columns, added: Columns) -> Columns:
    """`columns` with those that a step adds or computes anew."""
    if isinstance(columns, _Prefixed):
        return columns.with_more(added)
    return {**columns, **added}


def _together(node: Node, inputs: list[Columns]) -> Columns:  # noqa: ARG001  the table's form
    return _united(inputs)


def _sides(node: StreamJoin, inputs: list[Columns]) -> Columns:
    """The columns of both sides, or of the left one where the other only decides."""
    left, right = inputs
    if node.how not in OF_BOTH:
        return left
    return _united(inputs) if node.prefix is None else _Prefixed(left, right, node.prefix)


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
    return _more(above, {name: _named(expression, above) for name, expression in node.columns})


def _computed(node: Map | FlatMap | Script, above: Columns) -> Columns:  # noqa: ARG001  the table's form
    return {ANY: _all(above)}


def _placed(node: StreamJoin, above: Columns) -> Columns:
    """Windows lie where the times of both sides are."""
    if node.time_fields is None or not (node.place or node.early):
        return above
    at = frozenset().union(*(fields_of(above, name) for name in node.time_fields))
    return _more(above, dict.fromkeys((*(PLACE_FIELDS * bool(node.place)), *(["retracted"] * node.early)), at))


def _looked_up(node: DimJoin, above: Columns) -> Columns:
    """What a row finds is decided by its keys; a field whose name is not declared may be one that was found."""
    keys = frozenset[Field]().union(*(fields_of(above, left) for left, _ in node.on))
    names = node.dimension.names
    if names is None:
        return {ANY: _all(above)}
    own = {left for left, right in node.on if left == right and node.prefix is None}
    found = {name: keys | (fields_of(above, name) if node.prefix is None and node.how == "left" else frozenset())
             for name in names if name not in own}  # fmt: skip
    return _more(above, {f"{node.prefix or ''}{name}": fields for name, fields in found.items()})


def _windowed(node: WindowAggregate, above: Columns) -> Columns:
    at = fields_of(above, node.window.time_field) if node.window.time_field else frozenset()
    return {
        **{name: fields_of(above, name) for name in (*node.group_by, *node.kept)},
        **{a.alias: fields_of(above, a.field) if a.field else frozenset() for a in node.aggregates},
        **{name: _named(expression, above) for name, expression in node.own},
        **_ranked(node.ranking, above),
        **_kept(node, above),
        **dict.fromkeys(node.own_fields, at),
    }


def _kept(node: WindowAggregate, above: Columns) -> Columns:
    """The rows of a window, for functions behind it."""
    if node.rows is None:
        return {}
    return {
        column: frozenset[Field]().union(*(fields_of(above, name) for name in fields)) if fields else _all(above)
        for column, fields in node.rows.columns.items()
    }


def _folded(node: Fold, above: Columns) -> Columns:
    return _more(above, dict.fromkeys(node.made, fields_of(above, node.rows)))


def _ranked(ranking: Ranking | None, above: Columns) -> Columns:
    if ranking is None:
        return {}
    by = frozenset[Field]().union(*(fields_of(above, name) for name in ranking.by))
    return {**{name: fields_of(above, name) for name in ranking.shown}, ranking.rank: by}


RULES: Mapping[type[Node], Callable[[Any, Columns], Columns]] = MappingProxyType(
    {
        SelectFields: _selected,
        WithFields: _added,
        Map: _computed,
        FlatMap: _computed,
        Script: _computed,
        WindowAggregate: _windowed,
        Fold: _folded,
        StreamJoin: _placed,
        DimJoin: _looked_up,
    }
)
# What a step makes of the columns of its inputs, if it does not simply unite them.
GATHERED: Mapping[type[Node], Callable[[Any, list[Columns]], Columns]] = MappingProxyType({StreamJoin: _sides})
# Words of SQL that are no fields, where they stand unquoted in an expression.
SQL_WORDS = frozenset(
    (
        *("and", "or", "not", "null", "true", "false", "is", "in", "like", "rlike", "between", "case", "when", "then"),
        *("else", "end", "cast", "as", "interval", "timestamp", "date", "string", "int", "bigint", "double", "boolean"),
    )
)
