"""UNNEST and LATERAL TABLE: a row for each element of an expression over the left row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rs_assets.common.plural import count_of
from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.literals import quote, quote_name
from rs_assets.records.types import Type, type_in
from rs_assets.sql.expressions.expressions import a_type
from rs_assets.sql.expressions.udf import check_arguments, table_function
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.outputs import filtered
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts
from rs_assets.sql.plan.relation import Column, Relation, free_name
from rs_assets.sql.plan.windowing import check_bounds
from rs_assets.sql.read.lexer import CALL

UNNEST: Final = f"{CALL}UNNEST"
REMEDY: Final = "FROM t CROSS JOIN UNNEST(t.tags) AS x (tag)"


@dataclass(frozen=True, slots=True)
class Elements:
    """An array in Spark SQL, and the columns of its elements: name, type, and part of the element.

    A part is empty for the element itself; a name is empty if the statement must provide it.
    """

    array: str
    columns: tuple[tuple[str, Type | None, str], ...]


def is_lateral(tree: Any) -> bool:
    """Whether a part of FROM is UNNEST or LATERAL."""
    unnests = tree.key == "table" and tree.this.key == "anonymous" and tree.this.name == UNNEST
    return unnests or tree.key in ("lateral", "unnest")


def expanded(planner: Planner, left: Relation, join: Any, context: QueryContext) -> Relation:
    """`left` with a row for each element, and with LEFT JOIN one row for a row without elements."""
    _check(planner, left, join)
    item, outer = join.this, (join.args.get("side") or "").upper() == "LEFT"
    found = _elements(planner, left, item)
    names = _names(planner, found, item)
    taken = [*left.fields]
    columns, parts = [], []
    for name, (_, kind, part) in zip(names, found.columns, strict=False):
        taken.append(free_name(name, taken))
        columns.append(Column(name, Value(quote_name(taken[-1]), kind), item.alias))
        parts.append((taken[-1], part))
    if item.args.get("ordinality"):
        taken.append(free_name(names[-1], taken))
        columns.append(Column(names[-1], Value(quote_name(taken[-1]), Type("int")), item.alias))
    inside = context.inside(item.alias)
    stream = left.stream.flat_map(
        _generator(left.fields, found.array, parts, taken[len(left.fields) + len(parts) :], outer=outer),
        name=planner.name(inside, "rows", item),
    )
    made = replace(left, stream=stream, fields=tuple(taken), columns=(*left.columns, *columns))
    return filtered(planner, made, [each for each in _on(join) if not _always(each)], inside, "where")


def _check(planner: Planner, left: Relation, join: Any) -> None:
    side, kind = ((join.args.get(part) or "").upper() for part in ("side", "kind"))
    if kind not in ("", "INNER", "OUTER", "CROSS"):
        raise planner.error(f"{kind} JOIN of UNNEST or LATERAL is not supported", join, remedy="use CROSS JOIN")
    if side not in ("", "LEFT") or join.args.get("using") or join.args.get("method"):
        raise planner.error(
            f"{side or 'USING'} is not supported for UNNEST or LATERAL", join, remedy="use CROSS JOIN, or LEFT JOIN"
        )
    if side and (not _on(join) or not all(map(_always, _on(join)))):
        raise planner.error("a LEFT JOIN of UNNEST or LATERAL must be ON TRUE", join, remedy="filter in WHERE")
    if left.keys is not None:
        raise planner.error(
            "cannot unnest an updating result", join, remedy="unnest before the aggregate or the ranking"
        )
    if join.this.alias and join.this.alias in left.tables:
        raise planner.error(f"duplicate table name {join.this.alias!r}", join, remedy="rename one of them")


def _on(join: Any) -> list[Any]:
    return list(conjuncts(join.args.get("on")))


def _always(tree: Any) -> bool:
    return tree.key == "boolean" and bool(tree.this)


def _elements(planner: Planner, left: Relation, item: Any) -> Elements:
    call = item.this
    if call.key != "anonymous":
        raise planner.error(f"{call.key.upper()} is not a table function", call, remedy=f"UNNEST: {REMEDY}")
    made = planner.over(left)
    values = [made.value(each) for each in call.expressions]
    for value in values:
        check_bounds(planner, value, call)
    if call.name != UNNEST:
        return _called(planner, left, call, values)
    if len(values) != 1:
        raise planner.error("UNNEST takes one array or map", call, remedy=REMEDY)
    return _unnested(planner, left, values[0], call)


def _called(planner: Planner, left: Relation, call: Any, values: list[Value]) -> Elements:
    """The rows of a table function, built-in or user-defined."""
    function = table_function(planner.text, planner.catalog.functions, call.name.removeprefix(CALL), len(values), call)
    check_arguments(planner.over(left), function.function, values, call)
    try:
        plain = [value.plain for value in values]
        array, fields = function.rows(*plain), function.columns(*plain)
    except TopologyError as error:
        raise planner.error(error.what, call, remedy=error.remedy) from error
    return Elements(array, tuple((field, type_in(kind), field) for field, kind in fields))


def _unnested(planner: Planner, left: Relation, value: Value, call: Any) -> Elements:
    kind = value.type
    shown = planner.over(left).shown(call.expressions[0])
    if kind is None:
        raise planner.error(f"the type of {shown} is unknown", call, remedy="UNNEST a column of a table")
    parts = dict(kind.parts)
    if kind.name == "map":
        columns = (("key", parts.get("key"), "key"), ("value", parts.get("value"), "value"))
        return Elements(f"map_entries({value.text})", columns)
    if kind.name != "array":
        raise planner.error(f"{shown} is {a_type(kind)}, not an array", call, remedy="UNNEST takes an ARRAY or a MAP")
    element = parts.get("element")
    if element is not None and element.name == "struct":
        return Elements(value.text, tuple((name, each, name) for name, each in element.parts))
    return Elements(value.text, (("", element, ""),))


def _names(planner: Planner, found: Elements, item: Any) -> list[str]:
    """The names of the columns: from the statement, else the default ones."""
    alias = item.args.get("alias")
    given = [column.name for column in alias.columns] if alias is not None else []
    own = [name for name, _, _ in found.columns] + (["ordinality"] if item.args.get("ordinality") else [])
    if given and len(given) != len(own):
        raise planner.error(
            f"expected {count_of(len(own), 'column name')}, found {len(given)}", item, remedy="name each column"
        )
    names = given or own
    if not all(names):
        raise planner.error("the elements have no name", item, remedy=f"name them: {REMEDY}")
    twice = next((name for name in names if [n.casefold() for n in names].count(name.casefold()) > 1), None)
    if twice is not None:
        raise planner.error(f"duplicate column {twice!r}", item, remedy="rename one of them: AS x (a, b)")
    return names


def _generator(
    fields: Sequence[str], array: str, parts: Sequence[tuple[str, str]], position: Sequence[str], *, outer: bool
) -> str:
    """Spark's generator of the rows: `fields` unchanged, `parts` of the element, and its position."""
    element, index = free_name("element", fields), free_name("place", [*fields, "element"])
    members = [f"{quote(name)}, {quote_name(name)}" for name in fields]
    for name, part in parts:
        members.append(f"{quote(name)}, {element}{f'.{quote_name(part)}' if part else ''}")
    some = f"coalesce(size({array}), 0) > 0"
    counted = f"if({some}, {index} + 1, NULL)" if outer else f"{index} + 1"
    members += [f"{quote(name)}, {counted}" for name in position]
    # A row without elements gets one that is null.
    among = f"if({some}, {array}, array(NULL))" if outer else array
    taken = f"({element}, {index})" if position else element
    return f"inline(transform({among}, {taken} -> named_struct({', '.join(members)})))"
