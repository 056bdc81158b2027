"""A select with ROW_NUMBER(), and the order that it ranks by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation, free_name


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


def apart_from(outputs: Mapping[str, Value], kind: str, values: Iterable[Value]) -> dict[str, Value]:
    """`values` by names that begin with `kind`, of which no column of `outputs` has one.

    >>> list(apart_from({"ORDER_1": Value("`ms`")}, "order", [Value("`ms`"), Value("`id`")]))
    ['order_1_2', 'order_2']
    """
    found = dict[str, Value]()
    for number, value in enumerate(values, 1):
        found[free_name(f"{kind}_{number}", [*outputs, *found])] = value
    return found
