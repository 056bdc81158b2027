"""Relations of queries: named columns over a stream of the topology."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rs_assets.errors import SqlError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.spec import Window
from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.source import Text, nearest

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

NONE = timedelta(0)
# The names of fields before an aggregate and of the columns from which it is computed, after its own name.
_FIELD = re.compile(r"_(of(_\d+)?|only|s|n)$")
_COLUMN = re.compile(r"_[sn]$")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a query: its name, its table qualifier, and its value over the stream's rows."""

    name: str
    value: Value
    table: str = ""


@dataclass(frozen=True, slots=True)
class Pending:
    """A window whose rows are not grouped yet; by processing time `field` is None.

    `parts` are the values of PARTITION BY of a session window; None for other windows.
    """

    window: Window
    field: str | None
    parts: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """A key of a FULL JOIN, which is that of either side: its field, how to select it, and the texts of that."""

    field: str
    shown: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A stream with the columns that a query can use.

    `fields` are the fields of the stream's rows, `origins` its upstream sources. `delay` is how far rows may be out of
    order. With `keys` its rows are updates: each replaces the previous row with the same keys; if it `retracts`, that
    row is retracted before, by a row whose field `retracted` is true. With `changes` it is a table of the fluent API
    with these keys, whose rows come and go; the keys may be null if they are `nullable`. `merged` are those of a FULL
    JOIN, `also` are other fields that identify a row as well. With `latest` a row only replaces one that is not greater
    by these fields, which the sink table ensures.
    `window` is the window of its rows, `pending` the window that they will be grouped by. With `apart` a downstream
    stateful step must be in a separate query; if it is `untimed` only one by event time, because no watermark passes.
    """

    stream: DataStream
    fields: tuple[str, ...]
    columns: tuple[Column, ...]
    origins: frozenset[str]
    delay: timedelta = NONE
    stateful: bool = False
    keys: tuple[str, ...] | None = None
    retracts: bool = False
    changes: bool = False
    latest: tuple[str, ...] | None = None
    window: Window | None = None
    pending: Pending | None = None
    apart: bool = False
    untimed: bool = False
    nullable: bool = False
    merged: tuple[Merged, ...] = ()
    also: tuple[str, ...] | None = None

    @property
    def updating(self) -> bool:
        """Whether its rows replace one another, and it is not a table."""
        return self.keys is not None and not self.changes

    @property
    def table(self) -> Table:
        """The table of a relation of `changes`."""
        from rs_assets.stream.table import Table

        assert self.keys is not None  # relations of changes have keys
        return Table(self.stream.draft, self.stream.step, self.keys)

    def called(self, table: str) -> Relation:
        """The same relation with all columns qualified by a table."""
        return replace(self, columns=tuple(replace(column, table=table) for column in self.columns))

    @property
    def tables(self) -> frozenset[str]:
        """The table qualifiers of its columns."""
        return frozenset(column.table for column in self.columns if column.table)

    @property
    def own_delay(self) -> timedelta:
        """The watermark delay of a downstream stateful step: zero after another one."""
        return NONE if self.stateful else self.delay


def of_names(names: Mapping[str, Type | None], roles: Mapping[str, Any] | None = None) -> tuple[Column, ...]:
    """Columns that are unchanged fields."""
    known = roles or {}
    return tuple(Column(name, Value(quote_name(name), kind, known.get(name, ""))) for name, kind in names.items())


def free_aggregate(wanted: str, taken: Iterable[str]) -> str:
    """`wanted` with a number appended if `taken` has it, or a name of the fields of such an aggregate, as NAME_of.

    >>> free_aggregate("total", ["page", "total_of"]), free_aggregate("mean_n", ["mean"])
    ('total_2', 'mean_n_2')
    """
    folded = {name.casefold() for name in taken}
    folded |= {_FIELD.sub("", name) for name in folded}
    made, number = wanted, 1
    while not folded.isdisjoint({made.casefold(), _COLUMN.sub("", made.casefold())}):
        number += 1
        made = f"{wanted}_{number}"
    return made


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, with a number appended if `taken` has it.

    >>> free_name("key", ["KEY", "key_2"])
    'key_3'
    """
    folded = {name.casefold() for name in taken}
    made, number = wanted, 1
    while made.casefold() in folded:
        number += 1
        made = f"{wanted}_{number}"
    return made


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of one or several relations that an expression can use."""

    text: Text
    columns: tuple[Column, ...]

    def find(self, tree: Any) -> Value | None:
        """The value of a column; None for a tree that is not a column, SqlError for an unknown one."""
        if tree.key == "dot":
            return None
        if tree.key != "column" or tree.this.key == "star":
            return None
        column, rest = self.column(tree)
        return self._member(column.value, [part.name for part in tree.parts], rest, tree)

    def column(self, tree: Any) -> tuple[Column, int]:
        """The column that a tree of names means, and how many of the names are its own; SqlError for an unknown one.

        A table comes before a column with its name, of which the next name would be a part.
        """
        path = [part.name for part in tree.parts]
        if len(path) > 1:
            found = [each for each in self.columns if (each.table, each.name) == (path[0], path[1])]
            if found:
                return found[0], 2
        found = [each for each in self.columns if each.name == path[0]]
        if len(found) > 1:
            tables = [f"{each.table}.{each.name}" for each in found]
            raise self.text.error(f"the column {path[0]!r} is ambiguous", tree, remedy=f"write {' or '.join(tables)}")
        if not found:
            raise self._unknown(path, tree)
        return found[0], 1

    def _unknown(self, path: Sequence[str], tree: Any) -> SqlError:
        tables = {each.table for each in self.columns}
        if len(path) > 1 and path[0] in tables:
            known = [each.name for each in self.columns if each.table == path[0]]
            return self.text.error(f"{path[0]!r} has no column {path[1]!r}", tree, remedy=nearest(path[1], known))
        if len(path) > 1:
            known = sorted({*tables, *(each.name for each in self.columns)} - {""})
            return self.text.error(
                f"there is no table or column {path[0]!r} here", tree, remedy=nearest(path[0], known)
            )
        known = [each.name for each in self.columns]
        return self.text.error(f"there is no column {path[0]!r}", tree, remedy=nearest(path[0], known))

    def _member(self, value: Value, path: Sequence[str], rest: int, tree: Any) -> Value:
        """A part of a ROW."""
        for name in path[rest:]:
            kind = value.type
            if kind is not None and kind.name != "struct":
                raise self.text.error(
                    f"{path[rest - 1]!r} is a {kind.text.upper()} and has no part {name!r}", tree, remedy="remove it"
                )
            members = dict(kind.parts) if kind is not None else {}
            if kind is not None and name not in members:
                raise self.text.error(f"{path[rest - 1]!r} has no part {name!r}", tree, remedy=nearest(name, members))
            value = Value(f"{value.text}.{quote_name(name)}", members.get(name))
        return value

    def star(self, tree: Any) -> tuple[Column, ...] | None:
        """The columns of `*` or `t.*`; None for another tree."""
        if tree.key == "star":
            return self.columns
        if tree.key != "column" or tree.this.key != "star":
            return None
        found = tuple(each for each in self.columns if each.table == tree.table)
        if not found:
            known = sorted({each.table for each in self.columns} - {""})
            raise self.text.error(f"there is no table {tree.table!r} here", tree, remedy=nearest(tree.table, known))
        return found
