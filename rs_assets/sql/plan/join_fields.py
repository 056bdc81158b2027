"""The fields of the right side of a join: with a prefix where both sides have a name."""

from __future__ import annotations

from dataclasses import replace

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.plan.relation import Column, Relation


def prefix_of(left: Relation, right: Relation, *, always: bool = False) -> str | None:
    """The prefix that distinguishes fields of the right side; None if no name is on both sides, unless `always`."""
    taken = {name.casefold() for name in left.fields}
    base = f"{min(right.tables, default='right').lower()}_"
    prefix = base if always else ""
    while any(f"{prefix}{name}".casefold() in taken for name in right.fields):
        prefix += base
    return prefix or None


def prefixed(column: Column, prefix: str | None) -> Column:
    """A column of the right side over the field with its prefix."""
    field_name = column.value.field
    if prefix is None or field_name is None:
        return column
    return replace(column, value=replace(column.value, text=quote_name(f"{prefix}{field_name}")))


def if_there(column: Column, there: str) -> Column:
    """A column that is null where the field `there` is not true."""
    value = column.value
    return replace(column, value=replace(value, text=f"(CASE WHEN {quote_name(there)} THEN {value.text} END)"))
