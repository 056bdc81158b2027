"""Queries: FROM, WHERE, the select list, and what stands between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from rs_assets.engine.window.firing import ONCE
from rs_assets.pipeline.language.sql import joining
from rs_assets.pipeline.language.sql.aggregates import is_grouped
from rs_assets.pipeline.language.sql.grouping import grouped
from rs_assets.pipeline.language.sql.outputs import Output, Selected, called, filtered, mapped, named, outputs_of
from rs_assets.pipeline.language.sql.planner import Place, Planner, conjuncts, step_name
from rs_assets.pipeline.language.sql.ranking import ranked, ranking_of
from rs_assets.pipeline.language.sql.relation import Relation
from rs_assets.pipeline.language.sql.sources import source_of
from rs_assets.pipeline.language.sql.types import common
from rs_assets.pipeline.language.sql.windowing import pending

# Parts of a SELECT that are read; what else stands there is refused by its name.
READ: Final = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "kind", "hint"}
)
UNREAD: Final = {
    "limit": "streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n",
    "order": "streams have no end, so nothing can be ordered: rank with ROW_NUMBER(), or order what is read later",
    "laterals": "make the rows before, by a fluent step such as .flat_map",
    "qualify": "write ROW_NUMBER() into a sub-query and limit it in WHERE",
    "windows": "write the window behind OVER",
}
UNION_OTHERS: Final = {"except": "EXCEPT", "intersect": "INTERSECT"}


def relation_of(planner: Planner, tree: Any, place: Place, names: Sequence[str] = ()) -> Relation:
    """The rows of a query as a relation; `names` are those of a view's columns."""
    return named(planner, selected_of(planner, tree, place), place, tree, names)


def selected_of(planner: Planner, tree: Any, place: Place) -> Selected:
    """The select list of a query over the rows that it stands on."""
    if tree.key in ("subquery", "paren"):
        return selected_of(planner, tree.this, place)
    if tree.args.get("with_") is not None:
        local = {each.alias: each.this for each in tree.args["with_"].expressions}
        place = replace(place, local={**place.local, **local})
    if tree.key == "union":
        return _united(planner, tree, place)
    if tree.key != "select":
        what = UNION_OTHERS.get(tree.key, tree.key.upper())
        raise planner.error(f"{what} is not supported", tree, remedy="write a SELECT, or UNION ALL of several")
    return _select(planner, tree, place)


def _select(planner: Planner, tree: Any, place: Place) -> Selected:
    _check_parts(planner, tree)
    if not tree.expressions:
        raise planner.error("the select list is empty", tree, remedy="name columns: SELECT a, b FROM ...")
    if tree.args.get("from_") is None:
        raise planner.error("there is no FROM", tree, remedy="streams come from tables: SELECT ... FROM table")
    conditions = list(conjuncts(tree.args["where"].this)) if tree.args.get("where") else []
    relation, conditions = _from(planner, tree, conditions, place)
    relation = filtered(planner, relation, conditions, place, "where")
    if is_grouped(tree):
        relation, outputs = grouped(planner, relation, tree, place)
        return Selected(relation, tuple(Output(*each) for each in outputs))
    return Selected(relation, outputs_of(planner, relation, tree.expressions))


def _check_parts(planner: Planner, tree: Any) -> None:
    for name, part in tree.args.items():
        if part and name not in READ:
            at = part[0] if isinstance(part, list) else part
            shown = name.rstrip("_").upper().replace("LATERALS", "LATERAL VIEW")
            raise planner.error(f"{shown} is not supported", at, remedy=UNREAD.get(name, "leave it out"))


def _from(planner: Planner, tree: Any, conditions: list[Any], place: Place) -> tuple[Relation, list[Any]]:
    first, joins = tree.args["from_"].this, tree.args.get("joins") or []
    inner = ranking_of(planner, first, place)
    if inner is not None and not joins:
        return ranked(planner, inner, conditions, rows_of=_select_rows, list_of=outputs_of)
    relation = item(planner, first, place)
    for number, join in enumerate(joins, 1):
        # Rows that a later RIGHT or FULL JOIN keeps alone must meet the conditions of WHERE behind it.
        alone = any((other.args.get("side") or "").upper() in ("RIGHT", "FULL") for other in joins[number:])
        relation, left = joining.joined(planner, relation, join, [] if alone else conditions, place, item)
        conditions = conditions if alone else left
    return relation, conditions


def _select_rows(planner: Planner, tree: Any, place: Place) -> Relation:
    """FROM and WHERE of a select, for a ranking over its rows."""
    _check_parts(planner, tree)
    for part in ("distinct", "having", "with_"):
        if tree.args.get(part) is not None:
            name = part.rstrip("_").upper()
            raise planner.error(
                f"{name} beside ROW_NUMBER()", tree.expressions[0], remedy="put it into a sub-query, and rank its rows"
            )
    conditions = list(conjuncts(tree.args["where"].this)) if tree.args.get("where") else []
    relation, conditions = _from(planner, tree, conditions, place)
    return filtered(planner, relation, conditions, place, "where")


def item(planner: Planner, tree: Any, place: Place) -> Relation:
    """What stands in FROM: a table, a view, a sub-query or a window over one."""
    alias = tree.alias
    if tree.key == "subquery":
        return relation_of(planner, tree.this, place.inside(alias), _alias_columns(tree)).called(alias)
    if tree.key != "table":
        raise planner.error(f"{tree.key.upper()} is not supported in FROM", tree, remedy="name a table or a view")
    if tree.this.key == "anonymous":
        return pending(planner, tree.this, place, table).called(alias)
    if tree.args.get("version") is not None:
        raise planner.error(
            "FOR SYSTEM_TIME AS OF belongs to the right side of a join",
            tree,
            remedy="FROM stream JOIN table FOR SYSTEM_TIME AS OF stream.p AS t ON ...",
        )
    return table(planner, tree.this, place).called(alias or tree.name)


def _alias_columns(tree: Any) -> list[str]:
    found = tree.args.get("alias")
    return [column.name for column in found.columns] if found is not None else []


def table(planner: Planner, name: Any, place: Place) -> Relation:
    """A table, a view or a query of WITH by its name."""
    text = name.name
    if text in place.local:
        hidden = {key: tree for key, tree in place.local.items() if key != text}
        return relation_of(planner, place.local[text], replace(place.inside(text), local=hidden))
    view = planner.catalog.views.get(text)
    # EMIT holds for the windows of views, too; a source is the same for all statements.
    key = (text, place.reading, place.firing if view is not None else ONCE)
    if key not in planner.made:
        if view is not None:
            planner.made[key] = _view(planner, view, place)
        else:
            source = planner.catalog.table(text, name)
            planner.made[key] = source_of(planner, source, replace(place, base=step_name(text)))
    return planner.made[key]


def _view(planner: Planner, view: Any, place: Place) -> Relation:
    name = view.name.text
    if name in planner.reading:
        raise planner.error(f"the view {name!r} reads from itself", view.name.start, remedy="read from another one")
    planner.reading.add(name)
    base = name if place.firing == ONCE else f"{name}_{place.root}"
    inside = Place(step_name(base), place.reading, firing=place.firing, root=place.root)
    made = relation_of(planner, view.tree, inside, [column.text for column in view.columns])
    planner.reading.discard(name)
    return made


def _united(planner: Planner, tree: Any, place: Place) -> Selected:
    if tree.args.get("distinct"):
        raise planner.error(
            "UNION drops rows that are equal, which needs all rows for ever",
            tree.expression,
            remedy="write UNION ALL, and SELECT DISTINCT in a window behind it",
        )
    sides = [
        selected_of(planner, side, place.inside(kind)) for side, kind in ((tree.this, "a"), (tree.expression, "b"))
    ]
    left, right = sides
    if len(left.outputs) != len(right.outputs):
        raise planner.error(
            f"UNION ALL of {len(left.outputs)} and {len(right.outputs)} columns",
            tree.expression,
            remedy="select equally many columns on both sides",
        )
    if any(side.relation.pending is not None for side in sides):
        raise planner.error(
            "UNION ALL of rows in windows that are not grouped", tree,
            remedy="unite the tables in a view, and put the window over it",
        )  # fmt: skip
    if any(side.relation.keys is not None for side in sides):
        raise planner.error("UNION ALL of rows that are replaced later", tree, remedy="write them to two tables")
    names = [out.name or f"column_{n}" for n, out in enumerate(left.outputs, 1)]
    kinds = [_one_type(planner, *pair) for pair in zip(left.outputs, right.outputs, strict=True)]
    made = [
        _branch(planner, side, names, kinds, place.inside(name), tree) for side, name in zip(sides, "ab", strict=True)
    ]
    stream = made[0].stream.union(made[1].stream, name=planner.name(place, "union", tree))
    columns = tuple(
        replace(
            column, value=replace(column.value, role=column.value.role if column.value.role == other.value.role else "")
        )
        for column, other in zip(made[0].columns, made[1].columns, strict=True)
    )
    whole = replace(
        made[0],
        stream=stream,
        columns=columns,
        origins=made[0].origins | made[1].origins,
        delay=max(each.delay for each in made),
        window=made[0].window if made[0].window == made[1].window else None,
        stateful=any(each.stateful for each in made),
    )
    return Selected(whole, tuple(Output(column.name, column.value, tree) for column in columns))


def _one_type(planner: Planner, left: Output, right: Output) -> Any:
    """The type of a column of a union; None if it is not known."""
    one, two = left.value.type, right.value.type
    if one is None or two is None or one.text == two.text:
        return one or two
    if "void" in (one.name, two.name):
        return one if two.name == "void" else two
    shared = common(one, two)
    if shared is None:
        raise planner.error(
            f"the column {left.name!r} is {one.text.upper()} before UNION ALL and {two.text.upper()} behind it",
            right.at,
            remedy="CAST one of them",
        )
    return shared


def _branch(planner: Planner, side: Selected, names: list[str], kinds: list[Any], place: Place, at: Any) -> Relation:
    """One side of a union: just its columns, with the names of the first one and types that both sides have."""
    outputs = [
        replace(out, value=out.value if kind is None or (out.value.type and out.value.type.text == kind.text)
                else replace(out.value, text=f"cast({out.value.plain} AS {kind.text})", type=kind))
        for out, kind in zip(side.outputs, kinds, strict=True)
    ]  # fmt: skip
    return mapped(planner, side.relation, called(planner, outputs, names, at), place, at)
