"""IN (SELECT ...) and EXISTS in WHERE, with or without NOT: semi and anti joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rs_assets.operators.join.spec import JoinType
from rs_assets.sql.expressions.aggregates import is_grouped
from rs_assets.sql.plan.join_conditions import Join, take
from rs_assets.sql.plan.joins.joining import Item, check_sides, made_join, read_again
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts, not_null
from rs_assets.sql.plan.relation import Relation, Scope
from rs_assets.sql.plan.tables.table_subqueries import as_table, kept_by_table

KEPT: Final[dict[bool, JoinType]] = {False: "semi", True: "anti"}
# Allowed parts of a sub-query, besides DISTINCT, which has no effect here.
READ: Final = frozenset({"expressions", "from_", "where", "distinct", "hint"})
INNER: Final = "sub"


@dataclass(frozen=True, slots=True)
class Subquery:
    """A condition of WHERE by a sub-query: `value` IN `select`, or without a value EXISTS `select`."""

    at: Any
    select: Any
    value: Any
    negated: bool


def subquery_of(tree: Any) -> Subquery | None:
    """The sub-query of a condition; None for another condition."""
    inner, negated = tree, False
    while inner.key in ("not", "paren"):
        negated ^= inner.key == "not"
        inner = inner.this
    if inner.key == "exists":
        return Subquery(tree, inner.this, None, negated)
    if inner.key == "in" and inner.args.get("query") is not None:
        return Subquery(tree, inner.args["query"].this, inner.this, negated)
    return None


def parted(conditions: Sequence[Any]) -> tuple[list[Any], list[Subquery]]:
    """The conditions of WHERE without a sub-query, and those with one."""
    found = [(each, subquery_of(each)) for each in conditions]
    return [each for each, sub in found if sub is None], [sub for _, sub in found if sub is not None]


def kept(
    planner: Planner, left: Relation, sub: Subquery, conditions: Sequence[Any], context: QueryContext, item: Item
) -> Relation:
    """The rows of `left` for which a sub-query holds; `conditions` are the others of WHERE, applied already."""
    _check(planner, left, sub)
    source = sub.select.args["from_"].this
    inside = read_again(planner, left, source, context.inside(source.alias or source.name or INNER))
    # A group of a stream is a table then, too, of whose rows some may go.
    right = item(planner, source, replace(inside, changes=inside.changes or left.changes))
    join = Join(planner, left, right, KEPT[sub.negated], sub.at, inside)
    if left.changes:
        right = as_table(planner, right, inside, sub.at)
    check_sides(planner, left, right, sub.at)
    if (left.pending is None) != (right.pending is None):
        raise planner.error(
            "cannot filter windowed rows by a sub-query before grouping", sub.at, remedy="group them in a view first"
        )
    where = sub.select.args.get("where")
    wanted = [_named(each, right, right) for each in conjuncts(where.this if where is not None else None)]
    if sub.value is not None:
        wanted.append(_equal(planner, join, sub, conditions, wanted))
    else:
        _check_list(join, sub.select.expressions)
    for each in wanted:
        take(join, each)
    return kept_by_table(join) if left.changes else made_join(join)


def _check(planner: Planner, left: Relation, sub: Subquery) -> None:
    select = sub.select
    if left.updating:
        raise planner.error(
            "cannot filter an updating result by a sub-query", sub.at, remedy="filter before the aggregate"
        )
    unread = [part for name, part in select.args.items() if part and name not in READ]
    if select.key != "select" or unread or is_grouped(select):
        shown = unread[0] if unread and not isinstance(unread[0], list) else sub.at
        raise planner.error(
            "a sub-query in WHERE must be a SELECT from one table, with only WHERE", shown,
            remedy="compute the rest in a view, and use the view here",
        )  # fmt: skip
    if select.args.get("from_") is None:
        raise planner.error("there is no FROM in the sub-query", sub.at, remedy="SELECT ... FROM table")
    if sub.value is not None and (len(select.expressions) != 1 or select.expressions[0].is_star):
        raise planner.error("IN takes a sub-query of one column", sub.at, remedy="IN (SELECT column FROM ...)")
    from sqlglot import exp

    read = {id(each) for each in select.args["from_"].find_all(exp.Select)}
    inner = next((each for each in select.find_all(exp.Select) if each is not select and id(each) not in read), None)
    if inner is not None:
        raise planner.error("nested sub-queries are not supported", inner, remedy="move the inner one into a view")


def _check_list(join: Join, items: Sequence[Any]) -> None:
    """SqlError for an invalid select list of EXISTS, although its values are not used."""
    made = join.planner.expressions(Scope(join.planner.text, join.both).find)
    for each in items:
        if not each.is_star:
            made.value(_named(each.unalias(), join.right, join.right))


def _named(tree: Any, relation: Relation, inner: Relation) -> Any:
    """`tree` with the columns of `relation` qualified by its name; columns of `inner` hide outer ones."""
    from sqlglot import exp

    tables, names = inner.tables, {column.name: column.table for column in relation.columns}

    def qualified(node: Any) -> Any:
        if not isinstance(node, exp.Column) or node.parts[0].name in tables:
            return node
        table = names.get(node.parts[0].name)
        if not table or (len(node.parts) > 1 and node.parts[0].name in relation.tables):
            return node
        parts = [exp.to_identifier(table), *(part.copy() for part in node.parts)]
        return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)))

    return tree.copy().transform(qualified)


def _equal(planner: Planner, join: Join, sub: Subquery, conditions: Sequence[Any], inside: Sequence[Any]) -> Any:
    """The condition that the value equals the one of the sub-query; for NOT IN neither may be null."""
    from sqlglot import exp

    column = sub.select.expressions[0].unalias()
    outer, inner = _named(sub.value, join.left, join.left), _named(column, join.right, join.right)
    sure = [_named(each, join.left, join.left) for each in conditions]
    if sub.negated and not (not_null(outer, sure) and not_null(inner, inside)):
        raise planner.error(
            "NOT IN is not true if either side is null, which a join cannot decide", sub.at,
            remedy="add value IS NOT NULL to both WHERE clauses, or write NOT EXISTS",
        )  # fmt: skip
    return exp.EQ(this=outer, expression=inner)
