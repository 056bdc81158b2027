"""What GROUP BY knows of a group while it is planned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.operators.window.spec import Window
from rs_assets.sql.expressions.aggregates import Aggregated
from rs_assets.sql.expressions.values import Role, Value
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation

# The number of rows, for a group without aggregates.
ROWS: Final = "row_count"


@dataclass(slots=True)
class Group:
    """A group while it is planned: its keys, its window, and the aggregates used."""

    planner: Planner
    relation: Relation
    context: QueryContext
    tree: Any
    keys: dict[str, Value] = field(default_factory=dict)
    window: Window | None = None
    # The window is written in GROUP BY, such as TUMBLE(ts, ...): bounds of previous windows are then plain keys.
    own: bool = False
    # Which of its bounds are used.
    bounds: set[Role] = field(default_factory=set)
    # The window groups rows of previous windows, and has their length.
    length: timedelta | None = None
    made: dict[str, Aggregated] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)


def renamed(name: str, value: Value) -> Value:
    """A key under its name; one whose field has another name is computed."""
    return value if value.field == name else replace(value, text=f"({value.text})")
