"""The step of a join of two streams, with the fields that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.join.spec import OF_BOTH, Bound
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.join_conditions import Join, check_equal
from rs_assets.sql.plan.join_fields import prefix_of, prefixed
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import NONE, Column, Relation, Scope


def written(
    join: Join, within: Bound, times: tuple[str, str] | None, *, ends: str | None = None
) -> tuple[Relation, str]:
    """The result of the join, and the prefix of the fields of right rows in it.

    With `ends`, a field of right rows, it is a join as of a time.
    """
    planner, context, at = join.planner, join.context, join.at
    check_equal(join)
    pairs = [_texts(*pair) for pair in join.pairs]
    sides = []
    for number, (side, values) in enumerate(zip((join.left, join.right), zip(*pairs, strict=True), strict=True)):
        inside = context.inside(min(side.tables, default="")) if number else context
        made, keys = planner.with_keys(side, values, inside, at)
        more = [ends] if number and ends is not None else []
        sides.append((_narrowed(planner, made, [*keys, *more], inside, at), keys))
    (left, here), (right, there) = sides
    prefix = prefix_of(left, right) if join.how in OF_BOTH else None
    beside = right.fields if join.how in OF_BOTH else ()
    after = (prefixed(column, prefix) for column in right.columns if beside)
    columns = (
        *_side(left.columns, always=join.how not in ("right", "full")),
        *_side(after, always=join.how not in ("left", "full")),
    )
    step: dict[str, Any] = {
        "on": dict(zip(here, there, strict=True)),
        "how": join.how,
        "time_field": times,
        "water_mark": (left.own_delay, right.own_delay) if times is not None else NONE,
        "prefix": prefix,
        "name": planner.name(context, "join", at),
    }
    if ends is not None:
        stream = left.stream.asof_join(right.stream, deletes=quote_name(ends), **step)
    else:
        # Spark's own join loses rows next to other stateful steps; SQL has no option to choose it.
        processor, condition = join.how == "semi", _condition(join, left, right)
        stream = left.stream.join(right.stream, within=within, condition=condition, processor=processor, **step)
    made = Relation(
        stream=stream,
        fields=(*left.fields, *(f"{prefix or ''}{name}" for name in beside)),
        columns=columns,
        origins=left.origins | right.origins,
        stateful=True,
        window=left.window if within is not None and (not beside or left.window == right.window) else None,
    )
    return made, prefix or ""


def _side(columns: Iterable[Column], *, always: bool) -> Iterator[Column]:
    """Columns of one side in the result. If it may have no row there, its event time is a column like others."""
    for column in columns:
        plain = not always and column.value.role == "rowtime"
        yield replace(column, value=replace(column.value, role="")) if plain else column


def _texts(left: Value, right: Value) -> tuple[Value, Value]:
    """A pair of keys; texts get a prefix, because an empty text never matches in a join of the topology."""
    if not all(each.type is not None and each.type.name == "string" for each in (left, right)):
        return left, right
    return replace(left, text=f"('=' || {left.text})"), replace(right, text=f"('=' || {right.text})")


def _narrowed(planner: Planner, side: Relation, keys: Sequence[str], context: QueryContext, at: Any) -> Relation:
    """A side with only the fields that its columns, keys and times need; all others would go into state."""
    wanted = [c.value.field for c in side.columns if c.value.field is not None]
    wanted += [side.pending.field] if side.pending is not None and side.pending.field else []
    needed = tuple(dict.fromkeys([*wanted, *keys]))
    if set(needed) == set(side.fields) or any(c.value.field is None and not c.value.role for c in side.columns):
        return side
    stream = side.stream.select_fields(*needed, name=planner.name(context, "fields", at))
    return replace(side, stream=stream, fields=needed)


def _condition(join: Join, left: Relation, right: Relation) -> str | None:
    """The condition on pairs besides keys and times; fields are prefixed by `left.` and `right.`."""
    if not join.rest:
        return None
    sides = [_sided(column, "left") for column in left.columns] + [_sided(column, "right") for column in right.columns]
    made = join.planner.expressions(Scope(join.planner.text, tuple(sides)).find)
    return " AND ".join(made.condition(each).text for each in join.rest)


def _sided(column: Column, side: str) -> Column:
    if column.value.field is None:
        return column
    return replace(column, value=replace(column.value, text=f"{side}.{column.value.text}"))
