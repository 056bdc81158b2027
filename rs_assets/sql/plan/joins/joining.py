"""JOIN: of two streams by keys and time, by windows, or without a bound; of a stream with a dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.join.spec import Interval, JoinType
from rs_assets.operators.window.spec import AlignedWindow
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.join_conditions import Join, later, same_window, take
from rs_assets.sql.plan.joins.join_step import written
from rs_assets.sql.plan.joins.temporal_joins import NOW, temporal_join
from rs_assets.sql.plan.joins.version_joins import is_versioned, version_join
from rs_assets.sql.plan.lateral import expanded, is_lateral
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts
from rs_assets.sql.plan.relation import NONE, Column, Relation, Scope
from rs_assets.sql.plan.stateful import shuffled
from rs_assets.sql.plan.tables.table_joins import table_join
from rs_assets.sql.plan.tables.table_refs import is_followed, origins_of
from rs_assets.sql.plan.windowing import bound_values

Item = Callable[[Planner, Any, QueryContext], Relation]
KINDS: Final[dict[str, JoinType]] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
# SQL names of the joins that only keep rows of the left side.
ENDLESS: Final[dict[str, str]] = {"semi": "a sub-query", "anti": "a sub-query with NOT"}
ADD_BOUND: Final = "add one: AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE"
# The time of a window's rows is computed from its end, which is their event time.
OF_WINDOW: Final = "bound window_end (TUMBLE_END), or window_start, instead of window_time (TUMBLE_ROWTIME)"


def joined(
    planner: Planner, left: Relation, tree: Any, conditions: list[Any], context: QueryContext, item: Item
) -> tuple[Relation, list[Any]]:
    """`left` joined with `tree`, and the remaining conditions of WHERE."""
    if is_lateral(tree.this):
        return expanded(planner, left, tree, context), conditions
    how = _how(planner, tree)
    if tree.this.key == "table" and tree.this.args.get("version") is not None:
        return _as_of(planner, left, tree, how, context, item), conditions
    right = item(planner, tree.this, read_again(planner, left, tree.this, context))
    tables = check_sides(planner, left, right, tree)
    join = Join(planner, left, right, how, tree, context)
    on = list(conjuncts(tree.args["on"])) if tree.args.get("on") is not None else []
    moved = [each for each in conditions if how == "inner" and not later(join, each)]
    for each in [*on, *moved]:
        take(join, each)
    return table_join(join) if tables else made_join(join), [each for each in conditions if each not in moved]


def _as_of(planner: Planner, left: Relation, tree: Any, how: JoinType, context: QueryContext, item: Item) -> Relation:
    """`left` joined with the rows of a table as of a time: one that is followed, or one that is looked up."""
    if is_versioned(planner, left, tree):
        return version_join(planner, left, tree, how, read_again(planner, left, _plain(tree.this), context))
    if not is_followed(planner, tree.this.name, context.local):
        from rs_assets.sql.plan.joins.dimensions import dim_joined

        return dim_joined(planner, left, tree, how, context)
    plain = _plain(tree.this)
    right = item(planner, plain, replace(read_again(planner, left, plain, context), changes=True))
    return temporal_join(planner, left, right, tree, how, context)


def _plain(table: Any) -> Any:
    plain = table.copy()
    plain.set("version", None)
    return plain


def _how(planner: Planner, tree: Any) -> JoinType:
    if tree.args.get("using") or tree.args.get("method"):
        raise planner.error("USING and NATURAL are not supported", tree, remedy="write ON a.id = b.id")
    kind = (tree.args.get("kind") or "").upper()
    if kind not in ("", "INNER", "OUTER", "CROSS"):
        raise planner.error(f"{kind} JOIN is not supported", tree, remedy="use JOIN, LEFT, RIGHT or FULL JOIN")
    if kind == "CROSS":
        raise planner.error("CROSS JOIN is not supported", tree, remedy="join by equal columns: ON a.id = b.id")
    return KINDS[(tree.args.get("side") or "").upper()]


def read_again(planner: Planner, left: Relation, tree: Any, context: QueryContext) -> QueryContext:
    """The context with the next reading, if the left side reads a source already."""
    while left.origins & origins_of(planner, tree, context):
        context = replace(context, reading=context.reading + 1)
    return context


def check_sides(planner: Planner, left: Relation, right: Relation, tree: Any) -> bool:
    """Whether both sides are tables that change; SqlError for other updating results, and for two of one name."""
    tables = left.changes and right.changes
    if not tables and (left.changes or right.changes):
        raise planner.error(
            "a stream cannot be joined with a table whose rows change", tree,
            remedy=f"join each row of the stream with the current row of the table: FROM stream JOIN table {NOW} AS t"
            " ON ...; a sub-query must be a view",
        )  # fmt: skip
    if not tables and (left.keys is not None or right.keys is not None):
        raise planner.error(
            "cannot join an updating result", tree, remedy="group by a window, whose rows do not change"
        )
    twice = left.tables & right.tables
    if twice:
        raise planner.error(f"duplicate table name {min(twice)!r}", tree, remedy="rename one of them: JOIN t AS other")
    return tables


def made_join(join: Join) -> Relation:
    """The join, after the fields that it needs."""
    planner = join.planner
    right = join.context.inside(min(join.right.tables, default="right"))
    join.left = _apart(join, join.left, join.context, needed=join.left.apart)
    join.right = _apart(join, join.right, right, needed=join.right.apart)
    if join.left.pending is not None or join.right.pending is not None:
        return _by_window(join)
    within = _interval(join)
    if within is None and join.how != "inner":
        raise planner.error(
            f"{ENDLESS.get(join.how, f'a {join.how.upper()} JOIN')} needs a time bound to know when a row is unmatched",
            join.at,
            remedy=OF_WINDOW if _bounds_last(join) else ADD_BOUND,
        )
    if within is not None and within.exact and join.times is not None:
        join.pairs.append(join.times)
    if within is None:
        join.left = _apart(join, join.left, join.context, needed=join.left.stateful)
        join.right = _apart(join, join.right, right, needed=join.right.stateful)
    times = join.times if within is not None else None
    made, _ = written(join, within, (str(times[0].field), str(times[1].field)) if times is not None else None)
    return made


def _apart(join: Join, side: Relation, context: QueryContext, *, needed: bool) -> Relation:
    """A side in a separate query, if `needed`: a join without a bound cannot follow other state."""
    return shuffled(join.planner, side, context, join.at) if needed else side


def _bounds_last(join: Join) -> bool:
    """Whether a condition compares the last moment of a window."""
    from sqlglot import exp

    scope = Scope(join.planner.text, join.both)
    found = (scope.find(column) for tree in join.rest for column in tree.find_all(exp.Column))
    return any(value is not None and value.role == "last" for value in found)


def _interval(join: Join) -> Interval | None:
    """The time bound, None if one side of it is missing: then its conditions apply to pairs."""
    times = join.times
    real = times is not None and all(each.field is not None for each in times)
    if join.lower is None or join.upper is None or not real:
        join.rest += [each for each in join.timed if each not in join.rest]
        return None
    try:
        return Interval.of(before=-join.lower, after=join.upper)
    except TopologyError as error:
        raise join.planner.error(error.what, join.at, remedy="swap the bounds of the later time") from error


def _by_window(join: Join) -> Relation:
    """A join of rows of two tables in the same window."""
    left, right = join.left.pending, join.right.pending
    same = left is not None and right is not None and left.field and right.field and same_window(join)
    if not same or join.lower != NONE or join.upper != NONE or left is None or right is None:
        raise join.planner.error(
            "a join of windowed rows needs equal windows of both sides",
            join.at,
            remedy="ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id = b.id",
        )
    assert isinstance(left.window, AlignedWindow)  # same_window allows only these
    made, prefix = written(join, replace(left.window, time_field=None), (str(left.field), str(right.field)))
    here = str(left.field) if join.how in ("right", "full") else None
    there = f"{prefix}{right.field}" if join.how in ("left", "full") else None
    sides = len(join.left.columns)
    columns = (*_bounds(made.columns[:sides], here), *_bounds(made.columns[sides:], there))
    return replace(
        made, columns=columns, window=left.window, pending=None, fields=(*made.fields, "start_time", "end_time")
    )


def _bounds(columns: Sequence[Column], time: str | None) -> Iterator[Column]:
    """Columns of one side of a join by windows, with the bounds of the window.

    With `time`, the time of a side that may have no row, bounds are null where it has none, and those of no window.
    """
    bounds = bound_values("`start_time`", "`end_time`")
    if time is not None:
        there = f"CASE WHEN {quote_name(time)} IS NOT NULL THEN"
        bounds = {role: Value(f"({there} {bound.text} END)", bound.type) for role, bound in bounds.items()}
    for column in columns:
        yield replace(column, value=bounds.get(column.value.role, column.value))
