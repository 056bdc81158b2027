"""A select with ROW_NUMBER(), and the order that it ranks by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation


@dataclass(frozen=True, slots=True)
class Numbered:
    """A select with ROW_NUMBER() as one of its columns; `alias` is the name of the sub-query."""

    tree: Any
    window: Any
    rank: str
    alias: str
    context: QueryContext


def ordered_trees(planner: Planner, relation: Relation, at: Any) -> list[tuple[Any, Value, bool]]:
    """The parts of ORDER BY, each with its value and whether it descends; SqlError for an order that is none here."""
    found = at.args["order"].expressions if at.args.get("order") is not None else []
    if not found:
        raise planner.error("ROW_NUMBER() needs ORDER BY", at, remedy="OVER (PARTITION BY a ORDER BY b DESC)")
    over = planner.over(relation)
    made = [(each, over.value(each.this), bool(each.args.get("desc"))) for each in found]
    for each, value, descends in made:
        if bool(each.args.get("nulls_first")) == descends:
            raise planner.error(
                "nulls are less than all values; NULLS FIRST and NULLS LAST cannot change it", each,
                remedy="remove it, or order by COALESCE(column, value)",
            )  # fmt: skip
        if value.role == "proctime":
            raise planner.error(
                "processing time does not order rows", each, remedy="order by the event time: ORDER BY ts DESC"
            )
    return made
