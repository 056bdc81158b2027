"""What a table was when its rows began to land; a change of it that the log does not show is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rs_assets.connectors.changes.landed import Owner
from rs_assets.connectors.postgres.table import NUMERIC, Column, Table
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import DataLossError, SourceReadError

# Types (by their numbers in Postgres) of which a column may become another one: its values stay as they were written.
ALIKE: Final = (frozenset({20, 21, 23}), frozenset({25, 1043}))
ANEW: Final = f"{BEGIN_ANEW}, which begins with the table as it is then"


def facts_of(table: Table, publication: str) -> dict[str, Any]:
    """The facts of a table and of its publication, for JSON."""
    columns = {column.name: [column.number, column.type, column.modifier] for column in table.columns}
    return {"columns": columns, "keys": [*table.keys], "publication": publication}


def check_pinned(owner: Owner | None, table: Table, publication: str, *, fields: Iterable[str], step: str) -> None:
    """Refuse a table whose columns that are read, or whose key or publication, are not those of its landed rows.

    DataLossError if changes are lost, SourceReadError if rows were changed in a way that is not logged.
    """
    if owner is None or owner.facts is None:
        return
    if publication != owner.facts["publication"]:
        raise DataLossError(
            f"the table {table.quoted} was taken out of its publication: what changed meanwhile is lost",
            remedy=ANEW,
            step=step,
        )
    problem = _columns(owner.facts["columns"], table, fields) or _key(owner.facts["keys"], table)
    if problem is not None:
        raise SourceReadError(problem, remedy=ANEW, step=step)


def _columns(before: Mapping[str, tuple[int, int, int]], table: Table, fields: Iterable[str]) -> str | None:
    now = {column.name: column for column in table.columns}
    for name in fields:
        if name not in before or name not in now:
            continue
        number, *was = before[name]
        if number != now[name].number:
            return (
                f"the column {name!r} of the table {table.quoted} is another one than before (it was dropped and added"
                " again, or renamed), and its log does not have the values that rows have got by that"
            )
        if not _stays(Column(name, was[0], was[1], large=False), now[name]):
            return (
                f"the column {name!r} of the table {table.quoted} has another type than before, and its log does not"
                " have the values that rows have got by that"
            )
    return None


def _stays(before: Column, now: Column) -> bool:
    """Whether values are written as before; one that the field cannot hold is a bad record."""
    if before.type == now.type == NUMERIC:
        return before.modifier == now.modifier
    return before.type == now.type or any({before.type, now.type} <= alike for alike in ALIKE)


def _key(before: list[str], table: Table) -> str | None:
    # Without a key, but with whole rows in the log, each changed row is a delete and an insert.
    if [*table.keys] == before or (table.whole and not table.keys):
        return None
    return (
        f"the key of the table {table.quoted} was ({', '.join(before)}) and is ({', '.join(table.keys)}), and its log"
        " says by the new one which row was changed"
    )
