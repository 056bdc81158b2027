"""The first row of each key by event time: rows that are only appended, each once no earlier row can come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rs_assets.operators.window.trigger import ONCE
from rs_assets.sql.expressions.values import BOUNDS, Value
from rs_assets.sql.plan.groups.over import over
from rs_assets.sql.plan.outputs import named
from rs_assets.sql.plan.planner import Planner
from rs_assets.sql.plan.ranking_order import Numbered, ordered_trees
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.types import has_map


def first_rows(
    planner: Planner, relation: Relation, numbered: Numbered, outputs: Mapping[str, Value]
) -> Relation | None:
    """The rows, each with its number in event time; None if they are ranked by anything else.

    A row comes when the watermark has passed it, so the first row of a key is never replaced. EMIT changes nothing.
    """
    if not _by_event_time(planner, relation, numbered.window) or any(has_map(each.type) for each in outputs.values()):
        return None
    tree, context = numbered.tree.copy(), replace(numbered.context, firing=ONCE)
    _count_rows(next(each.unalias() for each in tree.expressions if each.unalias().key == "window"))
    return named(planner, over(planner, relation, tree, context), context, tree).called(numbered.alias)


def _by_event_time(planner: Planner, relation: Relation, window: Any) -> bool:
    """Whether the only order is the ascending event time of rows without a window."""
    orders = window.args["order"].expressions if window.args.get("order") is not None else []
    if len(orders) != 1 or orders[0].args.get("desc") or relation.changes or relation.pending is not None:
        return False
    ((_, order, _),) = ordered_trees(planner, relation, window)
    values = planner.over(relation)
    parts = [values.value(each) for each in window.args.get("partition_by") or []]
    return order.role == "rowtime" and order.field is not None and not any(part.role in BOUNDS for part in parts)


def _count_rows(window: Any) -> None:
    """Makes ROW_NUMBER() OVER (...) the count of the rows up to each row."""
    from sqlglot import exp

    window.this.set("this", f"{CALL}COUNT")
    window.this.set("expressions", [exp.Star()])
    window.set("spec", exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"))
