"""UNION ALL, and UNION, which removes duplicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rs_assets.common.plural import count_of
from rs_assets.operators.window.spec import Window
from rs_assets.sql.plan.groups.grouping import grouped
from rs_assets.sql.plan.outputs import Output, Selected, called, mapped
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.plan.stateful import last_states, shuffled
from rs_assets.sql.read.types import common

Select = Callable[[Planner, Any, QueryContext], Selected]


def united(planner: Planner, tree: Any, context: QueryContext, select: Select) -> Selected:
    """The rows of both sides; UNION deduplicates them with the same state as SELECT DISTINCT."""
    whole = _all(planner, tree, context, select)
    return _different(planner, whole, tree, context) if tree.args.get("distinct") else whole


def _different(planner: Planner, made: Selected, tree: Any, context: QueryContext) -> Selected:
    """The distinct rows of a union."""
    from sqlglot import exp

    columns = [exp.column(out.name, quoted=True) for out in made.outputs]
    for column, out in zip(columns, made.outputs, strict=True):
        column.meta.update(out.at.meta)
    chosen = exp.Select(expressions=columns, distinct=exp.Distinct())
    relation, outputs = grouped(planner, made.relation, chosen, context)
    return Selected(relation, tuple(Output(name, value, tree) for name, value, _ in outputs))


def _side(planner: Planner, tree: Any, context: QueryContext, select: Select, *, different: bool) -> Selected:
    """One side; if duplicates are dropped afterwards, it need not deduplicate."""
    if different and tree.key == "union" and tree.args.get("with_") is None:
        return _all(planner, tree, context, select)
    return select(planner, tree, context)


def _all(planner: Planner, tree: Any, context: QueryContext, select: Select) -> Selected:
    different = bool(tree.args.get("distinct"))
    word = "UNION" if different else "UNION ALL"
    sides = [
        _side(planner, side, context.inside(kind), select, different=different)
        for side, kind in ((tree.this, "a"), (tree.expression, "b"))
    ]
    left, right = sides
    if len(left.outputs) != len(right.outputs):
        raise planner.error(
            f"{word} of {len(left.outputs)} and {count_of(len(right.outputs), 'column')}",
            tree.expression,
            remedy="select equally many columns on both sides",
        )
    _check_rows(planner, sides, word, tree)
    names = [out.name or f"column_{n}" for n, out in enumerate(left.outputs, 1)]
    kinds = [_one_type(planner, *pair, word) for pair in zip(left.outputs, right.outputs, strict=True)]
    made = [
        _branch(planner, side, names, kinds, context.inside(name), tree) for side, name in zip(sides, "ab", strict=True)
    ]
    states = frozenset[str]().union(*(last_states(each.stream.step) for each in made))
    apart = planner.divides is not None and len(states) > 1
    if apart:
        # A query has one state that all its rows pass last.
        made = [
            shuffled(planner, each, context.inside(name), tree) if each.stateful else each
            for each, name in zip(made, "ab", strict=True)
        ]
    stream = made[0].stream.union(made[1].stream, name=planner.name(context, "union", tree))
    if apart and planner.divides is not None:
        planner.divides.add(str(stream.step))
    columns = tuple(
        replace(
            column, value=replace(column.value, role=column.value.role if column.value.role == other.value.role else "")
        )
        for column, other in zip(made[0].columns, made[1].columns, strict=True)
    )
    whole = replace(
        made[0],
        stream=stream,
        columns=columns,
        origins=made[0].origins | made[1].origins,
        delay=max(each.delay for each in made),
        window=made[0].window if _kind(made[0]) == _kind(made[1]) else None,
        stateful=any(each.stateful for each in made),
        apart=any(each.apart for each in made),
        untimed=any(each.untimed for each in made) and not any(each.stateful and not each.untimed for each in made),
    )
    return Selected(whole, tuple(Output(column.name, column.value, tree) for column in columns))


def _check_rows(planner: Planner, sides: Sequence[Selected], word: str, at: Any) -> None:
    """SqlError for rows that a union does not support."""
    if any(side.relation.pending is not None for side in sides):
        raise planner.error(
            f"{word} of windowed rows that are not grouped is not supported", at,
            remedy="union the tables in a view, and apply the window to it",
        )  # fmt: skip
    if any(side.relation.changes for side in sides):
        raise planner.error(
            f"{word} of tables has no key: a row of one side may have the key of a row of the other", at,
            remedy="write them to two tables, or FULL JOIN them by their keys",
        )  # fmt: skip
    if any(side.relation.keys is not None for side in sides):
        raise planner.error(f"{word} of an updating result is not supported", at, remedy="write them to two tables")
    if any(side.relation.apart and not side.relation.untimed for side in sides):
        raise planner.error(
            f"{word} of rows with OVER is not supported", at,
            remedy="union the tables in a view, and use OVER on it, or write both to one table",
        )  # fmt: skip


def _kind(relation: Relation) -> Window | None:
    """The window of its rows, regardless of its time field."""
    return replace(relation.window, time_field=None) if relation.window is not None else None


def _one_type(planner: Planner, left: Output, right: Output, word: str) -> Any:
    """The type of a column of a union; None if unknown."""
    one, two = left.value.type, right.value.type
    if one is None or two is None or one.text == two.text:
        return one or two
    if "void" in (one.name, two.name):
        return one if two.name == "void" else two
    shared = common(one, two)
    if shared is None:
        raise planner.error(
            f"the column {left.name!r} is {one.text.upper()} before {word} and {two.text.upper()} after it",
            right.at,
            remedy="CAST one of them",
        )
    return shared


def _branch(
    planner: Planner, side: Selected, names: list[str], kinds: list[Any], context: QueryContext, at: Any
) -> Relation:
    """One side of a union: only its columns, with the names of the first side and common types."""
    outputs = [
        replace(out, value=out.value if kind is None or (out.value.type and out.value.type.text == kind.text)
                else replace(out.value, text=f"cast({out.value.plain} AS {kind.text})", type=kind))
        for out, kind in zip(side.outputs, kinds, strict=True)
    ]  # fmt: skip
    return mapped(planner, side.relation, called(planner, outputs, names, at), context, at)
