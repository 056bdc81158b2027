"""GROUP BY, aggregates, HAVING and DISTINCT: each becomes a window of the topology, if need be a global one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.output import EmitStrategy
from rs_assets.operators.window.spec import Window
from rs_assets.sql.expressions.aggregates import aggregated, aggregates_in, calls_in, is_aggregate
from rs_assets.sql.expressions.values import BOUNDS, Role, Value
from rs_assets.sql.plan.group import ROWS, Group, renamed
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts, name_of
from rs_assets.sql.plan.relation import Relation, Scope, free_aggregate, free_name
from rs_assets.sql.plan.stateful import all_time, fired, fires_often, place_field, shuffled
from rs_assets.sql.plan.tables.table_group import table_group
from rs_assets.sql.plan.window_functions import WINDOWS
from rs_assets.sql.plan.windowing import (
    bound_values,
    cascaded,
    check_end,
    check_once,
    check_parts,
    check_rows,
    regrouped,
    window_of,
)
from rs_assets.sql.read.durations import duration_text
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.source import start_of

RESERVED: Final = ("start_time", "end_time", "fire_time", "final", "retracted", "rank")
SUFFIXES: Final[Mapping[str, Role]] = {"_START": "start", "_END": "end", "_ROWTIME": "last"}
BY_WINDOW: Final = "GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)"
# Several groupings in one query.
SEVERAL: Final = {"cube": "CUBE", "rollup": "ROLLUP", "groupingsets": "GROUPING SETS"}


def grouped(
    planner: Planner, relation: Relation, tree: Any, context: QueryContext
) -> tuple[Relation, list[tuple[str, Value, Any]]]:
    """The grouped rows, and the select list over them."""
    if relation.updating:
        raise planner.error(
            "cannot aggregate an updating result, whose rows would be counted again",
            tree.args.get("group") or tree.expressions[0],
            remedy="group by a window first, such as TUMBLE(ts, INTERVAL '1' DAY)",
        )
    group = Group(planner, relation, context, tree)
    items = items_of(planner, relation, tree)
    for name, item in items:
        if name:
            group.names[id(item.unalias())] = name
    keys = _key_trees(planner, tree, items)
    for key in sorted(keys, key=lambda each: not _is_window(each)):
        _add_key(group, key)
    if not group.bounds:
        check_once(planner, relation, keys[0] if keys else tree.expressions[0])
    elif group.window is not None:
        check_end(planner, group.window, group.bounds, keys[0])
    if relation.pending is not None and keys:
        check_parts(planner, relation.pending, group.keys.values(), keys[0])
    made = _made(group)
    values = [(name, made.value(item.unalias()), item) for name, item in items]
    having = tree.args.get("having")
    condition = [made.condition(each) for each in conjuncts(having.this)] if having is not None else []
    if relation.changes or (group.window is None and group.keys and (context.changes or condition)):
        rows = table_group(group)
    else:
        rows = _windowed(group)
    if condition:
        rows = _having(planner, rows, condition, having, context)
    return rows, values


def items_of(planner: Planner, relation: Relation, tree: Any) -> list[tuple[str, Any]]:
    """The items of a select list with their names, `*` expanded."""
    from sqlglot import exp

    found: list[tuple[str, Any]] = []
    for item in tree.expressions:
        star = Scope(planner.text, relation.columns).star(item)
        if star is None:
            found.append((name_of(item), item))
        else:
            for column in star:
                named = exp.column(column.name, table=column.table or None)
                named.this.meta.update(start=start_of(item), end=start_of(item))
                found.append((column.name, named))
    return found


def _key_trees(planner: Planner, tree: Any, items: Sequence[tuple[str, Any]]) -> list[Any]:
    group = tree.args.get("group")
    distinct = tree.args.get("distinct")
    if distinct is not None and (group is not None or any(aggregates_in(item) for _, item in items)):
        raise planner.error(
            "DISTINCT with GROUP BY or an aggregate is not supported", tree.expressions[0],
            remedy="remove DISTINCT, or group again: SELECT a FROM (SELECT ...) AS t GROUP BY a",
        )  # fmt: skip
    if group is None:
        return [item.unalias() for _, item in items] if distinct is not None else []
    return list(group.expressions)


def _add_key(group: Group, tree: Any) -> None:
    """Adds a part of GROUP BY: a window, a bound of one, or a key."""
    planner = group.planner
    if tree.key in SEVERAL:
        raise planner.error(f"{SEVERAL[tree.key]} is not supported", tree, remedy="write one query for each grouping")
    if tree.key == "literal" and not tree.is_string:
        raise planner.error(
            "GROUP BY does not accept column numbers", tree, remedy="write the column or its expression"
        )
    if _is_window(tree):
        check_rows(planner, group.relation, tree)
        kind = tree.name.removeprefix(CALL)
        value = planner.over(group.relation).value(tree.expressions[0])
        window, _ = window_of(planner, kind, tree.expressions[0], value, tree.expressions[1:], tree)
        _set_window(group, window, tree)
        group.own = group.relation.pending is None
        group.relation = cascaded(group.relation, window, value)
        return
    value = planner.over(group.relation).value(tree)
    if value.role in BOUNDS and not group.own and _bounds(group, value, tree):
        return
    if any(key.text == value.text for key in group.keys.values()):
        return
    name = tree.name if tree.key == "column" else group.names.get(_same(group, tree), "key")
    taken = [*RESERVED, *group.keys, *group.relation.fields]
    wanted = value.field if value.field is not None and value.field not in RESERVED else free_name(name, taken)
    group.keys[wanted] = value


def _is_window(tree: Any) -> bool:
    """Whether a part of GROUP BY is a window such as TUMBLE(ts, ...)."""
    return tree.key == "anonymous" and tree.name.removeprefix(CALL) in WINDOWS and bool(tree.expressions)


def _same(group: Group, tree: Any) -> int:
    """The index of the item of the select list that equals a key."""
    return next((id(item.unalias()) for item in group.tree.expressions if item.unalias() == tree), 0)


def _bounds(group: Group, value: Value, tree: Any) -> bool:
    """Whether the key is a bound of a window; then the group is by that window."""
    relation = group.relation
    group.bounds.add(value.role)
    if relation.pending is not None:
        _set_window(group, relation.pending.window, tree)
        return True
    if relation.window is None or value.role == "last":
        return False
    start = next((c.value for c in relation.columns if c.value.role == "start"), None)
    if group.window is None and start is not None:
        group.window = regrouped(group.planner, relation, start, tree)
        group.length = relation.window.longest
    return start is not None


def _set_window(group: Group, window: Window, at: Any) -> None:
    if group.window is not None and group.window != window:
        raise group.planner.error("GROUP BY has two windows", at, remedy="group by one, and join the two queries")
    group.window = window


def _made(group: Group) -> Any:
    return group.planner.expressions(lambda tree: _resolved(group, tree))


def _resolved(group: Group, tree: Any) -> Value | None:
    """The value of a tree after grouping: a key, a bound of the window, or an aggregate."""
    if tree.key in ("anonymous", "filter") and is_aggregate(tree):
        return _aggregate(group, tree)
    if tree.key == "anonymous" and (role := _auxiliary(group, tree)) is not None:
        return _bound(group, role, tree)
    if tree.key in ("null", "boolean") or (tree.key == "literal" and not tree.is_string):
        return None
    before = _before(group, tree)
    return None if before is None else _of_group(group, tree, before)


def _of_group(group: Group, tree: Any, before: Value) -> Value | None:
    """The value after grouping of a value before it; None for a value computed from others."""
    for name, key in group.keys.items():
        if key.text == before.text:
            return Value(quote_name(name), key.type, key.role if key.role == "proctime" else "")
    if before.role in BOUNDS and group.window is not None and not group.own:
        return _bound(group, before.role, tree)
    if tree.key in ("column", "dot"):
        raise group.planner.error(
            f"{tree.name!r} is neither a key of GROUP BY nor in an aggregate",
            tree,
            remedy=f"add it to GROUP BY, or write MAX({tree.name})",
        )
    return None


def _before(group: Group, tree: Any) -> Value | None:
    """The value of a tree before grouping; None if it has aggregates or auxiliary functions."""
    if any(is_aggregate(call) or _auxiliary(group, call) is not None for call in calls_in(tree)):
        return None
    return group.planner.over(group.relation).value(tree)


def _auxiliary(group: Group, tree: Any) -> Role | None:
    """The bound of TUMBLE_START(...) and similar functions."""
    name = tree.name.removeprefix(CALL)
    kind, sign, last = name.partition("_")
    role = SUFFIXES.get(sign + last) if kind in WINDOWS else None
    if role is None and kind in WINDOWS and sign:
        raise group.planner.error(
            f"{name} is not supported", tree, remedy=f"use {kind}_START, {kind}_END, {kind}_ROWTIME"
        )
    return role


def _bound(group: Group, role: Role, tree: Any) -> Value:
    if group.window is None:
        raise group.planner.error("there is no window in GROUP BY", tree, remedy=BY_WINDOW)
    if tree.key == "anonymous":
        value = group.planner.over(group.relation).value(tree.expressions[0])
        kind = tree.name.removeprefix(CALL).partition("_")[0]
        window, _ = window_of(group.planner, kind, tree.expressions[0], value, tree.expressions[1:], tree)
        if window != group.window:
            raise group.planner.error("this is not the window of GROUP BY", tree, remedy="write the same one")
    return _bound_values(group)[role]


def _bound_values(group: Group) -> Mapping[Role, Value]:
    assert group.window is not None  # checked before
    end = "`end_time`" if group.length is None else f"(`start_time` + {duration_text(group.length)})"
    return bound_values("`start_time`", end)


def _aggregate(group: Group, tree: Any) -> Value:
    made = aggregated(group.planner.over(group.relation), tree)
    if made.own is not None and group.window is None:
        raise group.planner.error(f"{made.kind} needs a window", tree, remedy=BY_WINDOW)
    known = next((name for name, other in group.made.items() if other == made), None)
    if known is None:
        wanted = group.names.get(id(tree)) or made.kind.lower()
        known = free_aggregate(wanted, [*RESERVED, *group.keys, *group.made])
        group.made[known] = made
    return Value(quote_name(known), made.type)


def _windowed(group: Group) -> Relation:
    """The window, after the fields that it needs."""
    planner, context, relation = group.planner, group.context, group.relation
    often = group.window is None
    if relation.apart or (often and relation.stateful):
        relation = shuffled(planner, relation, context, group.tree)
    before = {name: renamed(name, value) for name, value in group.keys.items()}
    before |= {field: value for name, made in group.made.items() for field, value in made.before(name)}
    relation, fields = planner.with_fields(relation, before, context, "keys", group.tree)
    window = group.window or all_time(relation)
    emit: EmitStrategy = "on_window_update" if often else "on_window_close"
    stream = relation.stream.window(window, name=planner.name(context, "group", group.tree), emit=emit)
    stream = stream.group_by(*(fields[name] for name in group.keys))
    own: dict[str, str] = {}
    if not group.made:
        stream = stream.count(free_name(ROWS, group.keys))
    for name, made in group.made.items():
        column = made.column(name, fields)
        if made.own is not None:
            stream = made.folded(stream, name, fields, planner.name(context, name, group.tree))
        elif column is None:
            own[name] = made.text
        else:
            stream = getattr(stream, made.method)(*column, name=name) if column else stream.count(name)
    if own:
        stream = stream.aggregate(**own)
    delay = relation.own_delay if window.time_field is not None else timedelta(0)
    if delay:
        stream = stream.water_mark(delay)
    return _result(group, relation, fired(stream, context, often=often), fields, often=often)


def _result(group: Group, relation: Relation, stream: Any, fields: Mapping[str, str], *, often: bool) -> Relation:
    """The grouped rows; `_resolved` provides their columns, so they have no names yet."""
    twice = fires_often(group.context) and not often
    keys = tuple(fields[name] for name in group.keys)
    names = (*keys, *group.made, "start_time", "end_time", "fire_time")
    return replace(
        relation,
        stream=stream,
        fields=names,
        columns=(),
        stateful=True,
        delay=timedelta(0),
        keys=keys if often else (*keys, place_field(group.window)) if twice else None,
        # For windows that are grouped again, the previous one.
        window=None if often else group.window if group.length is None else group.relation.window,
        pending=None,
    )


def _having(
    planner: Planner, relation: Relation, conditions: Sequence[Value], tree: Any, context: QueryContext
) -> Relation:
    if relation.updating:
        raise planner.error(
            "HAVING over all rows, or over a window that fires more than once, would have to retract rows", tree,
            remedy="GROUP BY 'all', or group by a column or by a window that fires once",
        )  # fmt: skip
    text = " AND ".join(each.text for each in conditions)
    if relation.changes:
        check_steady(planner, conditions, tree)
    stream = relation.stream.filter(Value(text).plain, name=planner.name(context, "having", tree))
    return replace(relation, stream=stream)
