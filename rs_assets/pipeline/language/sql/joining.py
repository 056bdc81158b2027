"""JOIN: of two streams by keys and time, by windows, or without bound; of a stream with a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.engine.functions.literals import quote_name
from rs_assets.engine.join.spec import Bound, Interval, JoinType
from rs_assets.engine.window.spec import HoppingWindow, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.pipeline.language.sql.durations import duration
from rs_assets.pipeline.language.sql.expressions import check_alike
from rs_assets.pipeline.language.sql.grouping import shuffled
from rs_assets.pipeline.language.sql.origins import origins_of
from rs_assets.pipeline.language.sql.planner import Place, Planner, conjuncts
from rs_assets.pipeline.language.sql.relation import Column, Relation, Scope
from rs_assets.pipeline.language.sql.values import Value
from rs_assets.pipeline.language.sql.windowing import bound_values

Item = Callable[[Planner, Any, Place], Relation]
NONE: Final = timedelta(0)
KINDS: Final[dict[str, JoinType]] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
# What `a op b` says of the difference b - a: whether it is bounded below, above, or on both sides.
COMPARED: Final = {
    "lte": (True, False),
    "lt": (True, False),
    "gte": (False, True),
    "gt": (False, True),
    "eq": (True, True),
}


@dataclass(slots=True)
class Join:
    """A join in the making: its sides, and what its conditions are for."""

    planner: Planner
    left: Relation
    right: Relation
    how: JoinType
    at: Any
    place: Place
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


def joined(
    planner: Planner, left: Relation, tree: Any, conditions: list[Any], place: Place, item: Item
) -> tuple[Relation, list[Any]]:
    """`left` joined with what `tree` names; of the conditions of WHERE those are returned that are left over."""
    how = _how(planner, tree)
    if tree.this.key == "table" and tree.this.args.get("version") is not None:
        from rs_assets.pipeline.language.sql.dimensions import dim_joined

        return dim_joined(planner, left, tree, how, place), conditions
    again = place if not left.origins & origins_of(planner, tree.this, place) else _again(planner, left, tree, place)
    right = item(planner, tree.this, again)
    _check_sides(planner, left, right, tree)
    join = Join(planner, left, right, how, tree, place)
    on = list(conjuncts(tree.args["on"])) if tree.args.get("on") is not None else []
    moved = [each for each in conditions if how == "inner" and not _later(join, each)]
    for each in [*on, *moved]:
        _take(join, each)
    return _made(join), [each for each in conditions if each not in moved]


def _how(planner: Planner, tree: Any) -> JoinType:
    if tree.args.get("using") or tree.args.get("method"):
        raise planner.error("USING and NATURAL are not supported", tree, remedy="write ON a.id = b.id")
    kind = (tree.args.get("kind") or "").upper()
    if kind not in ("", "INNER", "OUTER", "CROSS"):
        raise planner.error(f"{kind} JOIN is not supported", tree, remedy="use JOIN, LEFT, RIGHT or FULL JOIN")
    if kind == "CROSS" or tree.this.key in ("unnest", "lateral"):
        raise planner.error("CROSS JOIN is not supported", tree, remedy="join by equal columns: ON a.id = b.id")
    return KINDS[(tree.args.get("side") or "").upper()]


def _again(planner: Planner, left: Relation, tree: Any, place: Place) -> Place:
    """The next reading of sources that the left side reads already."""
    reading = place.reading
    while True:
        reading += 1
        again = replace(place, reading=reading)
        if not left.origins & origins_of(planner, tree.this, again):
            return again


def _check_sides(planner: Planner, left: Relation, right: Relation, tree: Any) -> None:
    for side in (left, right):
        if side.keys is not None:
            raise planner.error(
                "a join of rows that are replaced later", tree, remedy="group by a window, whose rows do not change"
            )
    twice = left.tables & right.tables
    if twice:
        raise planner.error(f"two tables are called {min(twice)!r}", tree, remedy="name one of them: JOIN t AS other")


def _later(join: Join, tree: Any) -> bool:
    """Whether a condition of WHERE names a table that is joined only later."""
    from sqlglot import exp

    tables = join.left.tables | join.right.tables
    names = {column.name for column in join.both}
    for column in tree.find_all(exp.Column):
        parts = [part.name for part in column.parts]
        if parts[0] not in tables and parts[0] not in names:
            return True
    return False


def _side(join: Join, tree: Any) -> str:
    """Which sides a tree names columns of: 'left', 'right', 'both' or '' for neither."""
    from sqlglot import exp

    scope = Scope(join.planner.text, join.both)
    sides = set()
    for column in tree.find_all(exp.Column):
        value = scope.find(column)
        here = any(value is not None and _within(value, each.value) for each in _named(join.left, column))
        sides.add("left" if here else "right")
    return "both" if len(sides) > 1 else next(iter(sides), "")


def _named(relation: Relation, column: Any) -> list[Column]:
    parts = [part.name for part in column.parts]
    named = [c for c in relation.columns if (c.table, c.name) == tuple(parts[:2])]
    return named or [c for c in relation.columns if c.name == parts[0]]


def _within(value: Value, of: Value) -> bool:
    return value.text.startswith(of.text)


def _take(join: Join, tree: Any) -> None:
    """Decide what a condition is for: one side, the keys, the bound in time, or the pairs that are left."""
    if tree.key == "between":
        from sqlglot import exp

        for made in (
            exp.GTE(this=tree.this, expression=tree.args["low"]),
            exp.LTE(this=tree.this, expression=tree.args["high"]),
        ):
            _take(join, made)
        return
    side = _side(join, tree)
    if side in ("left", "right") and _may_filter(join, side):
        _filter(join, side, tree)
    elif side != "both" or tree.key not in COMPARED or not _compared(join, tree):
        join.rest.append(tree)


def _may_filter(join: Join, side: str) -> bool:
    """Whether a condition on one side may drop its rows before the join."""
    return join.how == "inner" or (join.how, side) in (("left", "right"), ("right", "left"))


def _filter(join: Join, side: str, tree: Any) -> None:
    from rs_assets.pipeline.language.sql.query import filtered

    relation = join.left if side == "left" else join.right
    tables = sorted(relation.tables)
    place = join.place.inside(tables[0] if tables else side)
    setattr(join, side, filtered(join.planner, relation, [tree], place, "where"))


def _compared(join: Join, tree: Any) -> bool:
    """Take a comparison of both sides as a key or as a bound in time; False if it is neither."""
    first, second = tree.this, tree.expression
    swapped = _side(join, first) == "right"
    if swapped:
        first, second = second, first
    if (_side(join, first), _side(join, second)) != ("left", "right"):
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
        # Windows that start together end together if they are of one kind.
        return _same_window(join)
    times = (left[0], right[0])
    if join.times is not None and join.times != times:
        return False
    below, above = COMPARED[tree.key]
    if swapped:
        below, above = above, below
    # left + a <= right + b: the right one is later by a - b at least.
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


def _same_window(join: Join) -> bool:
    """Whether both sides are in windows of one kind, be they grouped or not."""
    kinds = [_kind(side) for side in (join.left, join.right)]
    return kinds[0] is not None and kinds[0] == kinds[1]


def _kind(relation: Relation) -> tuple[timedelta, timedelta, timedelta] | None:
    window = relation.pending.window if relation.pending is not None else relation.window
    if not isinstance(window, TumblingWindow | HoppingWindow):
        return None
    return window.size, window.slide, window.offset


def _time(join: Join, relation: Relation, tree: Any) -> tuple[Value, timedelta] | None:
    """The event time that a tree is, with an interval added or not; None for something else."""
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


def _made(join: Join) -> Relation:
    """The join, with all that must be a field before it."""
    planner = join.planner
    if join.left.pending is not None or join.right.pending is not None:
        return _by_window(join)
    within = _interval(join)
    if within is None and join.how != "inner":
        raise planner.error(
            f"a {join.how.upper()} JOIN without a bound in time never knows when a row stays alone",
            join.at,
            remedy="bound it: AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE",
        )
    if within is not None and within.exact and join.times is not None:
        join.pairs.append(join.times)
    if within is None:
        join.left = _apart(join, join.left, join.place)
        join.right = _apart(join, join.right, join.place.inside(min(join.right.tables, default="right")))
    times = join.times if within is not None else None
    return _written(join, within, (str(times[0].field), str(times[1].field)) if times is not None else None)


def _apart(join: Join, side: Relation, place: Place) -> Relation:
    """A side in a query of its own, if it has state: a join without bound follows no other state."""
    return shuffled(join.planner, side, place, join.at) if side.stateful else side


def _interval(join: Join) -> Interval | None:
    """The bound in time, None if one side of it is missing: then its conditions hold for pairs."""
    times = join.times
    real = times is not None and all(each.field is not None for each in times)
    if join.lower is None or join.upper is None or not real:
        join.rest += [each for each in join.timed if each not in join.rest]
        return None
    try:
        return Interval.of(before=-join.lower, after=join.upper)
    except TopologyError as error:
        raise join.planner.error(error.what, join.at, remedy="turn the bound of the later time round") from error


def _by_window(join: Join) -> Relation:
    """A join of rows of two tables that are in the same window."""
    left, right = join.left.pending, join.right.pending
    same = left is not None and right is not None and left.field and right.field and _same_window(join)
    if not same or join.lower != NONE or join.upper != NONE or left is None or right is None:
        raise join.planner.error(
            "a join of rows in windows goes by equal windows of both sides",
            join.at,
            remedy="ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id = b.id",
        )
    assert isinstance(left.window, TumblingWindow | HoppingWindow)  # noqa: S101  _same_window knows no others
    made = _written(join, replace(left.window, time_field=None), (str(left.field), str(right.field)))
    bounds = bound_values("`start_time`", "`end_time`")
    columns = tuple(replace(c, value=bounds.get(c.value.role, c.value)) for c in made.columns)
    return replace(
        made, columns=columns, window=left.window, pending=None, fields=(*made.fields, "start_time", "end_time")
    )


def _written(join: Join, within: Bound, times: tuple[str, str] | None) -> Relation:
    """The step of the join, and its rows."""
    planner, place, at = join.planner, join.place, join.at
    if not join.pairs:
        raise planner.error("a join needs equal columns", at, remedy="add ON a.id = b.id")
    keys = [f"key_{n}" for n in range(1, len(join.pairs) + 1)]
    sides = []
    for number, side in enumerate((join.left, join.right)):
        inside = place.inside(min(side.tables, default="")) if number else place
        made, fields = planner.with_fields(
            side, {k: p[number] for k, p in zip(keys, join.pairs, strict=True)}, inside, "keys", at
        )
        sides.append((_narrowed(planner, made, list(fields.values()), inside, at), fields))
    (left, here), (right, there) = sides
    prefix = _prefix(left, right)
    columns = (*left.columns, *(_prefixed(column, prefix) for column in right.columns))
    stream = left.stream.join(
        right.stream,
        on={here[key]: there[key] for key in keys},
        within=within,
        how=join.how,
        time_field=times,
        water_mark=(left.own_delay, right.own_delay) if times is not None else NONE,
        condition=_condition(join, left, right),
        prefix=prefix,
        name=planner.name(place, "join", at),
    )
    return Relation(
        stream=stream,
        fields=(*left.fields, *(f"{prefix or ''}{name}" for name in right.fields)),
        columns=columns,
        origins=left.origins | right.origins,
        stateful=True,
        window=left.window if within is not None and left.window == right.window else None,
    )


def _narrowed(planner: Planner, side: Relation, keys: Sequence[str], place: Place, at: Any) -> Relation:
    """A side with the fields that its columns, keys and times need, for all others would be kept in state."""
    wanted = [c.value.field for c in side.columns if c.value.field is not None]
    wanted += [side.pending.field] if side.pending is not None and side.pending.field else []
    needed = tuple(dict.fromkeys([*wanted, *keys]))
    if set(needed) == set(side.fields) or any(c.value.field is None and not c.value.role for c in side.columns):
        return side
    stream = side.stream.select_fields(*needed, name=planner.name(place, "fields", at))
    return replace(side, stream=stream, fields=needed)


def _prefix(left: Relation, right: Relation) -> str | None:
    """What tells the right side's fields from those of the left; None if no name stands on both sides."""
    taken = {name.casefold() for name in left.fields}
    prefix = ""
    base = f"{min(right.tables, default='right').lower()}_"
    while any(f"{prefix}{name}".casefold() in taken for name in right.fields):
        prefix += base
    return prefix or None


def _prefixed(column: Column, prefix: str | None) -> Column:
    field_name = column.value.field
    if prefix is None or field_name is None:
        return column
    return replace(column, value=replace(column.value, text=quote_name(f"{prefix}{field_name}")))


def _condition(join: Join, left: Relation, right: Relation) -> str | None:
    """What must hold for a pair beside keys and times; both sides' fields are told apart by `left.` and `right.`."""
    if not join.rest:
        return None
    sides = [_sided(column, "left") for column in left.columns] + [_sided(column, "right") for column in right.columns]
    made = join.planner.expressions(Scope(join.planner.text, tuple(sides)).find)
    return " AND ".join(made.condition(each).text for each in join.rest)


def _sided(column: Column, side: str) -> Column:
    if column.value.field is None:
        return column
    return replace(column, value=replace(column.value, text=f"{side}.{column.value.text}"))
