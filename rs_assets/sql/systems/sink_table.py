"""A table of SQL that is written: the facts for its connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rs_assets.errors import SqlError
from rs_assets.records.types import NESTED
from rs_assets.sql.expressions.casts import distinguishes
from rs_assets.sql.plan.outputs import Selected
from rs_assets.sql.plan.planner import Planner
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.read.options import ORDER_BY, Options
from rs_assets.sql.read.statements import Column, CreateTable, Insert

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

# The column that marks retractions, for queries that retract rows.
RETRACTED: Final = "retracted"


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table that is written: its options, the rows of the query, and how they change the table.

    `columns` are those that the query writes, `written` all that the sink has.
    """

    options: Options
    rows: DataStream
    name: str
    planner: Planner
    insert: Insert
    table: CreateTable
    columns: Sequence[Column]
    written: Sequence[Column]
    made: Selected

    @property
    def stream(self) -> DataStream:
        """The rows of the query; those of a table that changes have the field `retracted`."""
        if not self.made.relation.changes:
            return self.rows
        check_marked(self.planner, self.insert, self.table)
        places = [_position(self.made, key) for key in self.made.relation.keys or ()]
        selected = tuple(self.columns[place].name.text for place in places if place is not None)
        return self._table(selected).to_stream(name=f"{self.name}_changes")

    @property
    def changes(self) -> Table | None:
        """The rows of the query as a table by its keys; None for a query whose rows do not come and go."""
        return self._table(self.keys()) if self.made.relation.changes else None

    def _table(self, keys: tuple[str, ...]) -> Table:
        from rs_assets.stream.table import Table

        return Table(self.rows.draft, self.rows.step, keys)

    @property
    def metadata(self) -> dict[str, str]:
        """The METADATA columns that are written, by their keys."""
        return {c.metadata.text: c.name.text for c in self.written if c.metadata is not None}

    @property
    def bound(self) -> object:
        """The channel that the program passes for the table."""
        return self.planner.bound.get(self.table.name.text)

    @property
    def replace(self) -> bool:
        """Whether rows replace earlier rows."""
        return self.made.relation.keys is not None

    @property
    def deletes(self) -> str | None:
        """The column that marks retractions; None for a query that does not retract."""
        return RETRACTED if self.made.relation.retracts else None

    @property
    def marks(self) -> str | None:
        """The column of `stream` that marks rows which go; None for a query whose rows do not come and go."""
        return RETRACTED if self.deletes or self.made.relation.changes else None

    def keys(self) -> tuple[str, ...]:
        """The key columns by which rows are replaced; SqlError if the declared ones cannot be used."""
        keys = _keys_of(self.planner, self.insert, self.table, self.columns, self.made)
        if self.made.relation.keys:
            _check_apart(self.planner, self.columns, self.made, keys)
        return keys

    def order_by(self) -> tuple[str, ...]:
        """The columns that decide which of two rows with one key is newer: those of the option `order-by`.

        A query that leaves the decision to the table names them itself. For ties the other columns decide, as far as
        they can be ordered.
        """
        positions = [_position(self.made, field) for field in self.made.relation.latest or ()]
        if not positions:
            return self.options.names(ORDER_BY)
        newest = [self.columns[position].name.text for position in positions if position is not None]
        others = [column.name.text for column in self.columns if column.type is None or column.type.name not in NESTED]
        keys = self.keys()
        return tuple(name for name in dict.fromkeys([*newest, *others]) if name not in keys)


def check_marked(planner: Planner, insert: Insert, table: CreateTable) -> None:
    """SqlError for a column of the name that marks retractions."""
    if any(column.name.text.casefold() == RETRACTED for column in table.declared):
        raise planner.error(
            f"the column {RETRACTED!r} of the query marks retractions", insert.table.start,
            remedy="rename the column of the table",
        )  # fmt: skip


def _keys_of(
    planner: Planner, insert: Insert, table: CreateTable, columns: Sequence[Column], made: Selected
) -> tuple[str, ...]:
    """The columns by which rows are replaced: the primary key, else the keys of the query."""
    declared = tuple(word.text for word in table.key)
    if declared and not made.relation.keys:
        return declared
    also = _also(columns, made)
    if also and (set(declared) == set(also) if declared else _positions(made, made.relation.keys) is None):
        return also
    found: list[str] = []
    for key in made.relation.keys or ():
        position = _position(made, key)
        if position is None:
            raise _unselected(planner, insert, key, made)
        found.append(columns[position].name.text)
    if declared and set(declared) != set(found):
        raise planner.error(
            f"rows are replaced by {', '.join(found)}, not by the PRIMARY KEY, so rows with outdated keys would remain",
            table.key[0].start,
            remedy=f"declare PRIMARY KEY ({', '.join(found)}) NOT ENFORCED",
        )
    return tuple(found)


def _check_apart(planner: Planner, columns: Sequence[Column], made: Selected, keys: Sequence[str]) -> None:
    """SqlError for a key whose column would make one of two values: a row would replace that of another key."""
    for column, out in zip(columns, made.outputs, strict=True):
        known, kind = out.value.type, column.type
        if known is None or kind is None or distinguishes(known, kind) or column.name.text not in keys:
            continue
        # A computed time, as FLOOR(ts TO DAY), may be that of a day.
        if kind.name != "date" or out.value.field in _times(planner):
            raise planner.error(
                f"{column.name.text!r} is a key, and values of {known.text.upper()} that differ may be one"
                f" {kind.text.upper()}", out.at,
                remedy=f"declare the column as {known.text.upper()}, or group by CAST(... AS {kind.text.upper()})",
            )  # fmt: skip


def _times(planner: Planner) -> set[str]:
    """The names of declared columns of TIMESTAMP."""
    columns = (column for table in planner.catalog.tables.values() for column in table.columns)
    return {column.name.text for column in columns if column.type is not None and column.type.name == "timestamp"}


def _also(columns: Sequence[Column], made: Selected) -> tuple[str, ...]:
    """The columns of the other fields that identify a row; empty unless all are selected."""
    places = _positions(made, made.relation.also) if made.relation.also is not None else None
    return tuple(columns[place].name.text for place in places) if places is not None else ()


def _positions(made: Selected, keys: Sequence[str] | None) -> list[int] | None:
    """The positions of selected keys; None if one is not selected."""
    places = [_position(made, key) for key in keys or ()]
    return None if None in places else [place for place in places if place is not None]


def _unselected(planner: Planner, insert: Insert, key: str, made: Selected) -> SqlError:
    """The error for a key that is not selected; a computed key has a generated name, which is not shown."""
    from sqlglot import exp

    merged = next((each.shown for each in made.relation.merged if each.field == key), None)
    if merged is not None:
        return planner.error(
            "rows of a FULL JOIN are replaced by the key of either side, which is not selected",
            insert.table.start,
            remedy=f"select {merged}",
        )
    known = _name_of(made.relation, key)
    if known != key or made.relation.changes or any(each.name == key for each in insert.tree.find_all(exp.Column)):
        what, remedy = f"rows are replaced by {known!r}, which is not selected", f"select {known}"
    else:
        what = "rows are replaced by a computed key, which is not selected"
        remedy = "also select it in the query that groups by it or ranks: UPPER(page) AS upper_page"
    return planner.error(what, insert.table.start, remedy=remedy)


def _name_of(relation: Relation, field: str) -> str:
    """The column over `field`, with its table if another one has a column of that name; `field` if there is none."""
    column = next((each for each in relation.columns if each.value.field == field), None)
    if column is None:
        return field
    twice = sum(each.name == column.name for each in relation.columns) > 1
    return f"{column.table}.{column.name}" if twice and column.table else column.name


def _position(made: Selected, key: str) -> int | None:
    """The position of a selected key; the end of a window identifies it as well as its start."""
    values = [out.value for out in made.outputs]
    position = next((n for n, value in enumerate(values) if value.field == key), None)
    if position is None and key == "start_time":
        position = next((n for n, value in enumerate(values) if value.role in ("end", "last")), None)
    return position
