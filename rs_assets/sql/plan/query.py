"""Queries: FROM, WHERE, the select list, and grouping or ranking in between."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from rs_assets.operators.window.trigger import ONCE
from rs_assets.sql.connectors.sources import source_of
from rs_assets.sql.expressions.aggregates import is_grouped
from rs_assets.sql.plan.groups.grouping import grouped
from rs_assets.sql.plan.groups.over import over, windows_in
from rs_assets.sql.plan.groups.ranking import ranked, ranking_of
from rs_assets.sql.plan.joins import joining
from rs_assets.sql.plan.lateral import REMEDY, is_lateral
from rs_assets.sql.plan.outputs import Output, Selected, filtered, moving, named, outputs_of
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts, named_queries, step_name
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.plan.subqueries import kept, parted
from rs_assets.sql.plan.tables.upsert_dedup import UpsertTable
from rs_assets.sql.plan.unions import united
from rs_assets.sql.plan.windowing import pending
from rs_assets.sql.read.unsupported import check_parts

# How many queries, each of which reads the next by its name, are planned on one stack: then a thread has a new one.
ON_ONE_STACK: Final = 20
# Replacements of unsupported parts of a SELECT.
UNREAD: Final = {
    "limit": "streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n",
    "order": "streams have no end, so nothing can be ordered: rank with ROW_NUMBER(), or order when reading",
    "laterals": f"unnest an array: {REMEDY}",
    "qualify": "compute ROW_NUMBER() in a sub-query and limit it in WHERE",
    "windows": "write the window after OVER",
}
# Replacements of set operations.
SETS: Final = {
    "except": "write NOT EXISTS (SELECT ...) with equal columns and a time bound",
    "intersect": "write EXISTS (SELECT ...) with equal columns and a time bound",
}


def relation_of(planner: Planner, tree: Any, context: QueryContext, names: Sequence[str] = ()) -> Relation:
    """The rows of a query as a relation; `names` are the column names of a view."""
    return named(planner, selected_of(planner, tree, context), context, tree, names)


def selected_of(planner: Planner, tree: Any, context: QueryContext) -> Selected:
    """The select list of a query over its rows."""
    if tree.key in ("subquery", "paren"):
        return selected_of(planner, tree.this, context)
    if tree.args.get("with_") is not None:
        queries = tree.args["with_"].expressions
        _check_names(planner, queries)
        context = replace(context, local=named_queries(queries, context.local))
    if tree.key == "union":
        return united(planner, tree, context, selected_of)
    if tree.key != "select":
        remedy = SETS.get(tree.key, "write a SELECT, or UNION ALL of several")
        raise planner.error(f"{tree.key.upper()} is not supported", tree, remedy=remedy)
    return _select(planner, tree, context)


def _check_names(planner: Planner, queries: Sequence[Any]) -> None:
    """SqlError for two queries of one WITH with the same name."""
    known = set[str]()
    for each in queries:
        if each.alias in known:
            at = each.args["alias"].this
            raise planner.error(f"duplicate query {each.alias!r} in WITH", at, remedy="rename one of them")
        known.add(each.alias)


def _select(planner: Planner, tree: Any, context: QueryContext) -> Selected:
    check_parts(planner.text, tree, UNREAD)
    if not tree.expressions:
        raise planner.error("the select list is empty", tree, remedy="name columns: SELECT a, b FROM ...")
    below = is_grouped(tree) or bool(tree.args.get("joins"))
    relation = _rows(planner, tree, replace(context, changes=context.changes or below))
    if is_grouped(tree):
        relation, outputs = grouped(planner, relation, tree, context)
        return Selected(relation, tuple(Output(*each) for each in outputs))
    if windows_in(tree):
        return over(planner, relation, tree, context)
    return Selected(relation, outputs_of(planner, relation, tree.expressions))


def _rows(planner: Planner, tree: Any, context: QueryContext) -> Relation:
    """The rows of FROM that pass WHERE."""
    if tree.args.get("from_") is None:
        raise planner.error("there is no FROM", tree, remedy="add a table: SELECT ... FROM table")
    conditions = list(conjuncts(tree.args["where"].this)) if tree.args.get("where") else []
    plain, subqueries = parted(conditions)

    def retracting(rows: tuple[Relation, list[Any]]) -> bool:
        """Whether an update may stop to pass."""
        relation, left = rows
        return relation.updating and (bool(subqueries) or moving(planner, relation, left) is not None)

    relation, left = planner.as_tables(lambda given: _from(planner, tree, plain, given), context, retracting)
    relation = filtered(planner, relation, left, context, "where")
    for each in subqueries:
        relation = kept(planner, relation, each, plain, context, item)
    return relation


def _from(planner: Planner, tree: Any, conditions: list[Any], context: QueryContext) -> tuple[Relation, list[Any]]:
    first, joins = tree.args["from_"].this, tree.args.get("joins") or []
    inner = ranking_of(planner, first, context)
    if inner is not None and not joins:
        upsert_table = _upsert_table(planner, tree, context)
        return ranked(planner, inner, conditions, rows_of=_select_rows, list_of=outputs_of, upsert_table=upsert_table)
    relation = item(planner, first, context)
    for number, join in enumerate(joins, 1):
        # Unmatched rows of a later RIGHT or FULL JOIN must meet the conditions of WHERE after it.
        alone = any((other.args.get("side") or "").upper() in ("RIGHT", "FULL") for other in joins[number:])
        relation, left = joining.joined(planner, relation, join, [] if alone else conditions, context, item)
        conditions = conditions if alone else left
    return relation, conditions


def _upsert_table(planner: Planner, tree: Any, context: QueryContext) -> UpsertTable | None:
    """The table that the rows of a select go to unchanged, if it keeps the newest row of each key."""
    if not context.upsert_columns or is_grouped(tree) or windows_in(tree):
        return None
    return UpsertTable(planner, context.upsert_columns, tree.expressions)


def _select_rows(planner: Planner, tree: Any, context: QueryContext) -> Relation:
    """FROM and WHERE of a select, for a ranking over its rows."""
    check_parts(planner.text, tree, UNREAD)
    for part in ("distinct", "having", "with_"):
        if tree.args.get(part) is not None:
            name = part.rstrip("_").upper()
            raise planner.error(
                f"{name} with ROW_NUMBER() is not supported",
                tree.expressions[0],
                remedy="move it into a sub-query, and rank its rows",
            )
    return _rows(planner, tree, context)


def item(planner: Planner, tree: Any, context: QueryContext) -> Relation:
    """An item of FROM: a table, a view, a sub-query or a window over one."""
    alias = tree.alias
    if tree.key == "subquery":
        return relation_of(planner, tree.this, context.inside(alias), _alias_columns(tree)).called(alias)
    if tree.key != "table" and not is_lateral(tree):
        raise planner.error(f"{tree.key.upper()} is not supported in FROM", tree, remedy="use a table or a view")
    if is_lateral(tree):
        raise planner.error("UNNEST and LATERAL must follow a table", tree, remedy=REMEDY)
    if tree.this.key == "anonymous":
        return pending(planner, tree.this, context, _windowed).called(alias)
    if tree.args.get("version") is not None:
        raise planner.error(
            "FOR SYSTEM_TIME AS OF belongs to the right side of a join",
            tree,
            remedy="FROM stream JOIN table FOR SYSTEM_TIME AS OF stream.p AS t ON ...",
        )
    return table(planner, tree.this, context).called(alias or tree.name)


def _windowed(planner: Planner, tree: Any, context: QueryContext) -> Relation:
    """The rows that a window is over: a table, a view or a sub-query."""
    return item(planner, tree, context) if tree.key == "subquery" else table(planner, tree.this, context)


def _alias_columns(tree: Any) -> list[str]:
    found = tree.args.get("alias")
    return [column.name for column in found.columns] if found is not None else []


def table(planner: Planner, name: Any, context: QueryContext) -> Relation:
    """A table, a view or a query of WITH by its name."""
    text = name.name
    query = context.local.get(text)
    if query is not None:
        return _below(planner, query.tree, replace(context.inside(text), local=query.local))
    view = planner.catalog.views.get(text)
    if view is None:
        return source_of(planner, planner.catalog.table(text, name), context)
    # EMIT and readers also decide about groups.
    key = (text, context.reading, context.firing, context.changes)
    if key not in planner.made:
        planner.made[key] = _view(planner, view, context)
    return planner.made[key]


def _view(planner: Planner, view: Any, context: QueryContext) -> Relation:
    name = view.name.text
    if name in planner.reading:
        raise planner.error(f"the view {name!r} reads from itself", view.name.start, remedy="read from another table")
    planner.reading.add(name)
    base = name if context.firing == ONCE else f"{name}_{context.root}"
    inside = QueryContext(
        step_name(base), context.reading, firing=context.firing, root=context.root, changes=context.changes
    )
    made = _below(planner, view.tree, inside, [column.text for column in view.columns])
    planner.reading.discard(name)
    return made


def _below(planner: Planner, tree: Any, context: QueryContext, names: Sequence[str] = ()) -> Relation:
    """The rows of a query that another one reads by name: there may be any number of them below one another."""
    planner.depth += 1
    if planner.depth % ON_ONE_STACK:
        made = relation_of(planner, tree, context, names)
    else:
        with ThreadPoolExecutor(1) as fresh:
            made = fresh.submit(relation_of, planner, tree, context, names).result()
    planner.depth -= 1
    return made
