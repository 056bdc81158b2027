"""JOIN of two tables whose rows change: by the keys of both, or by the key of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rs_assets.errors import SqlError
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.join_conditions import Join
from rs_assets.sql.plan.join_fields import prefix_of, prefixed
from rs_assets.sql.plan.outputs import check_steady, filtered
from rs_assets.sql.plan.relation import Column, Relation

# The joins of a table with one that has a row, or none, for each of its rows.
TURNED: Final[dict[str, Literal["inner", "left"]]] = {"inner": "inner", "right": "left"}


@dataclass(frozen=True, slots=True)
class _Sides:
    """A join of `one`, whose key the result has, with `other`, which is found by its key.

    `on` are the values of `one` by the key fields of `other`.
    """

    one: Relation
    other: Relation
    on: dict[str, Value]
    how: Literal["inner", "left"]


def table_join(join: Join) -> Relation:
    """The rows of both tables, which change with either."""
    planner, at = join.planner, join.at
    sides = _sides(join)
    wanted = {f"key_{n}": value for n, value in enumerate(sides.on.values(), 1)}
    check_steady(planner, wanted.values(), at)
    one, fields = planner.with_fields(sides.one, wanted, join.context, "keys", at)
    prefix = prefix_of(one, sides.other, always=True)
    made = one.table.join(
        sides.other.table,
        on=dict(zip(fields.values(), sides.on, strict=True)),
        how=sides.how,
        prefix=prefix,
        name=planner.name(join.context, "join", at),
    )
    relation = Relation(
        stream=replace(one.stream, step=made.step),
        fields=(*one.fields, *(f"{prefix}{name}" for name in sides.other.fields)),
        columns=_columns(join, sides, prefix),
        origins=join.left.origins | join.right.origins,
        stateful=True,
        keys=made.keys,
        changes=True,
    )
    return _filtered(join, relation)


def _sides(join: Join) -> _Sides:
    """The sides in the direction in which one is found by its key."""
    if join.how in ("inner", "left"):
        forward = _found(join.right, [(right.field, left) for left, right in join.pairs])
        if forward is not None:
            return _Sides(join.left, join.right, forward, "inner" if join.how == "inner" else "left")
    if join.how in TURNED:
        backward = _found(join.left, [(left.field, right) for left, right in join.pairs])
        if backward is not None:
            return _Sides(join.right, join.left, backward, TURNED[join.how])
    raise _refused(join)


def _found(table: Relation, pairs: Sequence[tuple[str | None, Value]]) -> dict[str, Value] | None:
    """The values by the key fields of `table`; None unless each of its keys is compared once, and nothing else."""
    keys, on = table.keys or (), dict(pairs)
    if len(pairs) != len(keys) or set(on) != set(keys):
        return None
    return {key: on[key] for key in keys}


def _name(join: Join) -> str:
    return "JOIN" if join.how == "inner" else f"{join.how.upper()} JOIN"


def _refused(join: Join) -> SqlError:
    both = [
        f"{', '.join(side.keys or ())} of {min(side.tables, default='the table')}" for side in (join.left, join.right)
    ]
    if join.how == "full":
        return join.planner.error("a FULL JOIN of tables is not supported", join.at, remedy="use JOIN or LEFT JOIN")
    wanted = {"left": both[1:], "right": both[:1]}.get(join.how, both)
    return join.planner.error(
        f"a {_name(join)} of tables needs the whole key of the joined table, and no other column of it",
        join.at, remedy=f"ON must name {' or '.join(wanted)}",
    )  # fmt: skip


def _columns(join: Join, sides: _Sides, prefix: str | None) -> tuple[Column, ...]:
    """The columns of both tables, in the order of the query."""
    return tuple(
        prefixed(column, prefix) if side is sides.other else column
        for side in (join.left, join.right)
        for column in side.columns
    )


def _filtered(join: Join, relation: Relation) -> Relation:
    """The rows that fulfil the other conditions, which only an inner join can have."""
    if join.rest and join.how != "inner":
        raise join.planner.error(
            f"a {_name(join)} of tables has equal columns only", join.rest[0],
            remedy="filter in a sub-query, before the join",
        )  # fmt: skip
    return filtered(join.planner, relation, join.rest, join.context, "on")
