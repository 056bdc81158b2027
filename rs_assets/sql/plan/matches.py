"""Conditions besides the equal columns of a LEFT JOIN in which each row has one partner at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rs_assets.sql.plan.join_conditions import Join
from rs_assets.sql.plan.join_fields import if_there
from rs_assets.sql.plan.outputs import all_of, filtered
from rs_assets.sql.plan.planner import added
from rs_assets.sql.plan.relation import Column, Relation, free_name


def only_matches(join: Join, relation: Relation, partner: Sequence[Column]) -> Relation:
    """The rows of a join for which its other conditions hold; of a LEFT JOIN the others are kept without a partner.

    `partner` are the columns of the partner among those of `relation`.
    """
    planner, conditions = join.planner, join.rest
    if join.how == "inner" or not conditions:
        return filtered(planner, relation, conditions, join.context, "on")
    matches = free_name("matches", relation.fields)
    text = f"coalesce({all_of(planner, relation, conditions)}, false)"
    stream = added(relation.stream, {matches: text}, planner.name(join.context, "on", conditions[0]))
    theirs = {id(column) for column in partner}
    columns = (if_there(column, matches) if id(column) in theirs else column for column in relation.columns)
    return replace(relation, stream=stream, fields=(*relation.fields, matches), columns=tuple(columns))
