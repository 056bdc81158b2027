"""The conditions of a join: on one side, keys, time bounds, and conditions on pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from rs_assets.operators.join.spec import JoinType
from rs_assets.operators.window.spec import AlignedWindow
from rs_assets.records.types import Type
from rs_assets.sql.expressions.predicates import check_alike
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.outputs import filtered
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import NONE, Column, Relation, Scope
from rs_assets.sql.read.durations import duration
from rs_assets.sql.read.types import BOOLEAN, is_whole

# Whether `a op b` bounds the difference b - a below, above, or on both sides.
COMPARED: Final = {
    "lte": (True, False),
    "lt": (True, False),
    "gte": (False, True),
    "gt": (False, True),
    "eq": (True, True),
}
# The sides whose rows may be dropped before a join: those without unmatched rows in the result.
FILTERED: Final[Mapping[JoinType, tuple[str, ...]]] = MappingProxyType(
    {"inner": ("left", "right"), "semi": ("left", "right"), "left": ("right",), "anti": ("right",), "right": ("left",)}
)
# A value of each type that is not a number, for keys that are null.
ANY_VALUE: Final[Mapping[str, str]] = MappingProxyType(
    {"string": "''", "binary": "''", "boolean": "false", "date": "'1970-01-01'", "timestamp": "'1970-01-01'"}
)


@dataclass(slots=True)
class Join:
    """A join while it is planned: its sides and its classified conditions."""

    planner: Planner
    left: Relation
    right: Relation
    how: JoinType
    at: Any
    context: QueryContext
    pairs: list[tuple[Value, Value]] = field(default_factory=list)
    rest: list[Any] = field(default_factory=list)
    lower: timedelta | None = None
    upper: timedelta | None = None
    times: tuple[Value, Value] | None = None
    timed: list[Any] = field(default_factory=list)

    @property
    def both(self) -> tuple[Column, ...]:
        """The columns of both sides."""
        return (*self.left.columns, *self.right.columns)


def check_equal(join: Join) -> None:
    """SqlError for a join without a pair of equal columns."""
    if not join.pairs:
        raise join.planner.error("a join needs equal columns", join.at, remedy="add ON a.id = b.id")


def later(join: Join, tree: Any) -> bool:
    """Whether a condition of WHERE uses a table that is joined later."""
    from sqlglot import exp

    tables = join.left.tables | join.right.tables
    names = {column.name for column in join.both}
    for column in tree.find_all(exp.Column):
        parts = [part.name for part in column.parts]
        if parts[0] not in tables and parts[0] not in names:
            return True
    return False


def sides_of(join: Join, tree: Any) -> str:
    """The sides whose columns a tree uses: 'left', 'right', 'both' or '' for neither."""
    from sqlglot import exp

    scope, left = Scope(join.planner.text, join.both), {id(column) for column in join.left.columns}
    columns = [scope.column(each)[0] for each in tree.find_all(exp.Column)]
    sides = {"left" if id(column) in left else "right" for column in columns}
    return "both" if len(sides) > 1 else next(iter(sides), "")


def take(join: Join, tree: Any) -> None:
    """Classifies a condition: one side, the keys, the time bound, or the remaining pairs."""
    if tree.key == "between":
        from sqlglot import exp

        for made in (
            exp.GTE(this=tree.this, expression=tree.args["low"]),
            exp.LTE(this=tree.this, expression=tree.args["high"]),
        ):
            take(join, made)
        return
    alike = null_safe(tree)
    if alike is not None and _taken_null_safe(join, *alike):
        return
    side = sides_of(join, tree)
    if not side and _never(tree):
        raise join.planner.error(
            "this condition is never true", tree, remedy="remove it, or compare columns of both sides"
        )
    if side in ("left", "right") and _may_filter(join, side):
        _filter(join, side, tree)
    elif side != "both" or tree.key not in COMPARED or not _compared(join, tree):
        join.rest.append(tree)


def null_safe(tree: Any) -> tuple[Any, Any] | None:
    """The two sides of a condition by which nulls are equal; None for another one.

    It is `a IS NOT DISTINCT FROM b`, or `a = b OR (a IS NULL AND b IS NULL)` in any order.
    """
    tree = tree.unnest()
    if tree.key == "nullsafeeq":
        return tree.this, tree.expression
    if tree.key != "or":
        return None
    parts = sorted((tree.left.unnest(), tree.right.unnest()), key=lambda each: each.key != "eq")
    equal, nulls = parts
    if equal.key != "eq" or nulls.key != "and":
        return None
    asked = [each.unnest() for each in (nulls.left, nulls.right)]
    if any(each.key != "is" or each.expression.key != "null" for each in asked):
        return None
    sides = (equal.this, equal.expression)
    return sides if [each.this for each in asked] in ([*sides], [*sides[::-1]]) else None


def _taken_null_safe(join: Join, first: Any, second: Any) -> bool:
    """Adds two keys for values that are equal if both are null; False if they are not of one simple type, or one side.

    The keys are whether a value is null, and the value, or anything of its type instead of null.
    """
    if sides_of(join, first) == "right":
        first, second = second, first
    if (sides_of(join, first), sides_of(join, second)) != ("left", "right"):
        return False
    left, right = join.planner.over(join.left).value(first), join.planner.over(join.right).value(second)
    if not (_is_simple(left.type) and (left.type == right.type or (is_whole(left.type) and is_whole(right.type)))):
        return False
    join.pairs.append((Value(f"({left.text} IS NULL)", BOOLEAN), Value(f"({right.text} IS NULL)", BOOLEAN)))
    join.pairs.append((_or_any(left), _or_any(right)))
    return True


def _is_simple(kind: Type | None) -> bool:
    return kind is not None and not kind.nested


def _or_any(value: Value) -> Value:
    """A value, or another one of its type instead of null."""
    assert value.type is not None  # checked before
    other = f"cast({ANY_VALUE.get(value.type.name, '0')} AS {value.type.text})"
    return Value(f"coalesce({value.plain}, {other})", value.type)


def _never(tree: Any) -> bool:
    """Whether a condition without columns is false, or null."""
    from sqlglot.optimizer.simplify import simplify

    made = simplify(tree.copy())
    return made.key == "null" or (made.key == "boolean" and not made.this)


def _may_filter(join: Join, side: str) -> bool:
    """Whether a condition on one side may drop its rows before the join."""
    return side in FILTERED.get(join.how, ())


def _filter(join: Join, side: str, tree: Any) -> None:
    relation = join.left if side == "left" else join.right
    tables = sorted(relation.tables)
    context = join.context.inside(tables[0] if tables else side)
    setattr(join, side, filtered(join.planner, relation, [tree], context, "where"))


def _compared(join: Join, tree: Any) -> bool:
    """Adds a comparison of both sides as a key or as a time bound; False if it is neither."""
    first, second = tree.this, tree.expression
    swapped = sides_of(join, first) == "right"
    if swapped:
        first, second = second, first
    if (sides_of(join, first), sides_of(join, second)) != ("left", "right"):
        return False
    if _bound(join, first, second, tree, swapped=swapped):
        return True
    if tree.key != "eq":
        return False
    left, right = (join.planner.over(side).value(each) for side, each in ((join.left, first), (join.right, second)))
    check_alike(join.planner.over(join.left), left, right, tree)
    join.pairs.append((left, right))
    return True


def _bound(join: Join, first: Any, second: Any, tree: Any, *, swapped: bool) -> bool:
    left, right = _time(join, join.left, first), _time(join, join.right, second)
    if left is None or right is None:
        return False
    if tree.key == "eq" and left[0].role == right[0].role == "end":
        # Windows of one kind with equal ends have equal starts.
        starts = [_start(join.left), _start(join.right)] if same_window(join) else [None]
        if None in starts:
            return False
        left, right = (starts[0], left[1]), (starts[1], right[1])  # type: ignore[assignment]
    times = (left[0], right[0])
    if join.times is not None and join.times != times:
        return False
    below, above = COMPARED[tree.key]
    if swapped:
        below, above = above, below
    # left + a <= right + b: the right one is later by at least a - b.
    difference = left[1] - right[1]
    if below:
        join.lower = difference if join.lower is None else max(join.lower, difference)
    if above:
        join.upper = difference if join.upper is None else min(join.upper, difference)
    join.times = times
    join.timed.append(tree)
    if tree.key in ("lt", "gt"):
        join.rest.append(tree)
    return True


def _start(relation: Relation) -> Value | None:
    """The start of the windows of its rows, if it is a column."""
    return next((column.value for column in relation.columns if column.value.role == "start"), None)


def same_window(join: Join) -> bool:
    """Whether both sides are in windows of one kind, grouped or not."""
    kinds = [_kind(side) for side in (join.left, join.right)]
    return kinds[0] is not None and kinds[0] == kinds[1]


def _kind(relation: Relation) -> tuple[timedelta, timedelta, timedelta] | None:
    window = relation.pending.window if relation.pending is not None else relation.window
    if not isinstance(window, AlignedWindow):
        return None
    return window.size, window.slide, window.offset


def _time(join: Join, relation: Relation, tree: Any) -> tuple[Value, timedelta] | None:
    """The event time of a tree, with or without an added interval; None for anything else."""
    if tree.key == "paren":
        return _time(join, relation, tree.this)
    if tree.key in ("add", "sub") and tree.expression.key == "interval":
        inner = _time(join, relation, tree.this)
        span = duration(join.planner.text, tree.expression)
        return (inner[0], inner[1] + (span if tree.key == "add" else -span)) if inner is not None else None
    if tree.key != "column":
        return None
    value = Scope(join.planner.text, relation.columns).find(tree)
    return (value, NONE) if value is not None and value.role in ("rowtime", "start", "end") else None
