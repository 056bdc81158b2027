"""IN (SELECT ...) and EXISTS over a table: a join with the different values of a sub-query, which follows both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.output import Aggregate
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.group import ROWS
from rs_assets.sql.plan.join_conditions import Join
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Column, Relation, free_name
from rs_assets.sql.plan.stateful import before_table
from rs_assets.sql.plan.tables.table_joins import Sides, found_by_key, joined_by


def as_table(planner: Planner, right: Relation, context: QueryContext, at: Any) -> Relation:
    """The rows of a sub-query as a table: those of a stream never go, so the table of their values only grows."""
    if right.changes or right.keys is not None or right.pending is not None:
        return right
    return replace(before_table(planner, right, context, at), changes=True)


def kept_by_table(join: Join) -> Relation:
    """The rows of the left table that have a partner, or none for NOT."""
    if join.rest or not join.pairs:
        raise join.planner.error(
            "a sub-query over a table needs equal columns, and no other condition between both",
            join.rest[0] if join.rest else join.at,
            remedy="compare a group of its rows: JOIN (SELECT a, MAX(b) AS b FROM s GROUP BY a) AS g ON g.a = t.a"
            " AND g.b > t.b",
        )
    left, right = join.left, join.right
    on = found_by_key(right, [(there.field, here) for here, there in join.pairs]) if right.keys else None
    if on is None:
        join.right, on = _different(join)
    negated = join.how == "anti"
    join.left = left
    made = joined_by(join, Sides(left, join.right, on, "left" if negated else "inner"))
    if negated:
        # With a prefix the key of the right side is null if there is no row.
        beside = dict(zip(join.right.fields, made.fields[-len(join.right.fields) :], strict=True))
        name = join.planner.name(join.context, "none", join.at)
        made = replace(made, stream=made.stream.filter(f"{quote_name(beside[next(iter(on))])} IS NULL", name=name))
    return replace(made, columns=left.columns, origins=left.origins | right.origins, also=left.also)


def _different(join: Join) -> tuple[Relation, dict[str, Value]]:
    """The different values of the sub-query as a table by them, and the values of the left side that equal them."""
    from rs_assets.topology.nodes.table import TableGroup

    planner, context, right = join.planner, join.context, join.right
    ours, theirs = zip(*join.pairs, strict=True)
    check_steady(planner, theirs, join.at)
    if len({value.text for value in theirs}) < len(theirs):
        right, names = planner.with_keys(right, theirs, context, join.at)
    else:
        wanted = {f"value_{n}": value for n, value in enumerate(theirs, 1)}
        right, fields = planner.with_fields(right, wanted, context, "values", join.at)
        names = [*fields.values()]
    on = dict(zip(names, ours, strict=True))
    rows = free_name(ROWS, on)
    node = TableGroup(
        name=planner.name(context, "group", join.at),
        inputs=(right.stream.step,),
        keys=tuple(on),
        aggregates=(Aggregate("count", None, rows),),
        appends=right.keys is None,
    )
    stream = replace(right.stream, step=right.stream.draft.add(node))
    columns = tuple(Column(name, Value(quote_name(name)), "") for name in on)
    made = Relation(
        stream=stream, fields=(*on, rows), columns=columns, origins=right.origins,
        stateful=True, keys=tuple(on), changes=True,
    )  # fmt: skip
    return made, on
