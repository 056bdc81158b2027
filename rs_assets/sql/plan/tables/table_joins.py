"""JOIN of two tables whose rows change: by the keys of both, by the key of one of them, or by any equal columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rs_assets.errors import SqlError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.join_conditions import Join, check_equal
from rs_assets.sql.plan.join_fields import if_there, prefix_of, prefixed
from rs_assets.sql.plan.matches import only_matches
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import added
from rs_assets.sql.plan.relation import Column, Merged, Relation, free_name

How = Literal["inner", "left", "outer"]
# The joins of a table with one that has a row, or none, for each of its rows.
TURNED: Final[dict[str, Literal["inner", "left"]]] = {"inner": "inner", "right": "left"}
# The joins of pairs of rows: that of RIGHT is of the right table with the left one.
OF_PAIRS: Final[dict[str, How]] = {"inner": "inner", "left": "left", "right": "left", "full": "outer"}


@dataclass(frozen=True, slots=True)
class Sides:
    """A join of `one`, whose key the result has, with `other`, which is found by its key.

    `on` are the values of `one` by the key fields of `other`; of `pairs` by any fields, and the result has both keys.
    """

    one: Relation
    other: Relation
    on: dict[str, Value]
    how: How
    pairs: bool = False

    @property
    def nullable(self) -> bool:
        """Whether a key of the result may be null."""
        return self.one.nullable or (self.pairs and (self.other.nullable or self.how != "inner"))


def table_join(join: Join) -> Relation:
    """The rows of both tables, which change with either, that fulfil all conditions."""
    sides = _sides(join)
    if join.rest and sides.how != "inner" and (sides.pairs or sides.how == "outer"):
        raise join.planner.error(
            f"a {join.how.upper()} JOIN of tables has equal columns only, unless they are the key of the joined table",
            join.rest[0],
            remedy="filter in a sub-query, before the join",
        )
    turned, count = sides.other is join.left, len(join.left.columns)
    made = joined_by(join, sides)
    return only_matches(join, made, made.columns[:count] if turned else made.columns[count:])


def joined_by(join: Join, sides: Sides) -> Relation:
    """The rows of both sides whose keys are equal."""
    planner, at = join.planner, join.at
    check_steady(planner, sides.on.values(), at)
    sides = _with_fields(join, sides)
    one, keys = planner.with_keys(sides.one, sides.on.values(), join.context, at)
    prefix = prefix_of(one, sides.other, always=True)
    made = one.table.join(
        _found_rows(join, sides).table,
        on=dict(zip(keys, sides.on, strict=True)),
        how=sides.how,
        prefix=prefix,
        name=planner.name(join.context, "join", at),
    )
    return Relation(
        stream=replace(one.stream, step=made.step),
        fields=(*one.fields, *(f"{prefix}{name}" for name in sides.other.fields)),
        columns=_columns(join, sides, prefix),
        origins=join.left.origins | join.right.origins,
        stateful=True,
        keys=made.keys,
        changes=True,
        nullable=sides.nullable,
        merged=_merged(join, sides, prefix) if sides.how == "outer" and not sides.pairs else (),
    )


def _with_fields(join: Join, sides: Sides) -> Sides:
    """The same sides; each column of the one that is found is a field, because the join gives it another name."""
    other = sides.other
    values = {f"column_{n}": column.value for n, column in enumerate(filter(_is_computed, other.columns), 1)}
    if not values:
        return sides
    made, fields = join.planner.with_fields(other, values, join.context, "columns", join.at)
    names = iter(fields.values())
    columns = (
        replace(column, value=replace(column.value, text=quote_name(next(names)))) if _is_computed(column) else column
        for column in made.columns
    )
    made = replace(made, columns=tuple(columns))
    if other is join.left:
        join.left = made
    else:
        join.right = made
    return replace(sides, other=made)


def _is_computed(column: Column) -> bool:
    """Whether it is neither a field nor a time with a role."""
    return column.value.field is None and not column.value.role


def _found_rows(join: Join, sides: Sides) -> Relation:
    """The rows of the side that is found; a key of null, which equals no other, is left out."""
    other = sides.other
    if sides.pairs or not (sides.one.nullable and other.nullable):
        return other
    text = " AND ".join(f"{quote_name(key)} IS NOT NULL" for key in sides.on)
    return replace(other, stream=other.stream.filter(text, name=join.planner.name(join.context, "known", join.at)))


def _sides(join: Join) -> Sides:
    """The sides in the direction in which one is found by its key, else all pairs of their rows."""
    forward = found_by_key(join.right, [(right.field, left) for left, right in join.pairs])
    backward = found_by_key(join.left, [(left.field, right) for left, right in join.pairs])
    if join.how == "full" and forward is not None and backward is not None:
        return _full(join, forward)
    if forward is not None and join.how in ("inner", "left"):
        return Sides(join.left, join.right, forward, "inner" if join.how == "inner" else "left")
    if backward is not None and join.how in TURNED:
        return Sides(join.right, join.left, backward, TURNED[join.how])
    return _pairs(join)


def _pairs(join: Join) -> Sides:
    """Both sides by any equal columns, which many rows of either may have."""
    check_equal(join)
    if join.how == "full" and join.left.nullable and join.right.nullable:
        raise _two_nulls(join)
    side = "left" if join.how == "right" else "right"
    ours, theirs = zip(*(pair[::-1] if side == "left" else pair for pair in join.pairs), strict=True)
    check_steady(join.planner, theirs, join.at)
    other: Relation = getattr(join, side)
    other, names = join.planner.with_keys(other, theirs, join.context.inside(min(other.tables, default=side)), join.at)
    setattr(join, side, other)
    one = join.right if side == "left" else join.left
    return Sides(one, other, dict(zip(names, ours, strict=True)), OF_PAIRS[join.how], pairs=True)


def _full(join: Join, forward: dict[str, Value]) -> Sides:
    """Both sides by their keys, the left one with a field that says whether a row has it.

    The key of the join is the one of whichever side is there: the field of the left key, which no side's column names.
    """
    if join.left.nullable or join.right.nullable:
        raise _two_nulls(join)
    keys = tuple(str(value.field) for value in forward.values())
    there = free_name("is_left", join.left.fields)
    name = join.planner.name(join.context, "left", join.at)
    left = join.left
    left = replace(
        left, stream=added(left.stream, {there: "true"}, name), fields=(*left.fields, there), keys=keys,
        columns=tuple(if_there(column, there) if column.value.field in keys else column for column in left.columns),
    )  # fmt: skip
    return Sides(left, join.right, forward, "outer")


def _merged(join: Join, sides: Sides, prefix: str | None) -> tuple[Merged, ...]:
    """The keys of a FULL JOIN: COALESCE of both sides, in either order."""
    found = list[Merged]()
    for theirs, mine in sides.on.items():
        one = next(
            now for was, now in zip(join.left.columns, sides.one.columns, strict=True) if was.value.field == mine.field
        )
        other = prefixed(next(column for column in sides.other.columns if column.value.field == theirs), prefix)
        both = one.value.text, other.value.text
        shown = f"COALESCE({one.table}.{one.name}, {other.table}.{other.name})"
        texts = tuple(f"coalesce({first}, {second})" for first, second in (both, both[::-1]))
        found.append(Merged(str(mine.field), shown, texts))
    return tuple(found)


def found_by_key(table: Relation, pairs: Sequence[tuple[str | None, Value]]) -> dict[str, Value] | None:
    """The values by the key fields of `table`; None unless each of its keys is compared once, and nothing else."""
    keys, on = table.keys or (), dict(pairs)
    if len(pairs) != len(keys) or set(on) != set(keys):
        return None
    return {key: on[key] for key in keys}


def _two_nulls(join: Join) -> SqlError:
    return join.planner.error(
        "a FULL JOIN needs keys that are never null: two rows of null would have one key", join.at,
        remedy="group by a column that is not null: WHERE a IS NOT NULL GROUP BY a",
    )  # fmt: skip


def _columns(join: Join, sides: Sides, prefix: str | None) -> tuple[Column, ...]:
    """The columns of both tables, in the order of the query."""
    return tuple(
        prefixed(column, prefix) if side is sides.other else column
        for side in ((sides.other, sides.one) if sides.other is join.left else (sides.one, sides.other))
        for column in side.columns
    )
