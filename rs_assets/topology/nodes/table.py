"""Tables: the current row of each key, and the steps whose rows change with them.

The rows of a table are changes: a row that goes and a row that comes, marked by the hidden field RETRACTED. In one
batch a key has at most one of each, in any order: a row that comes is the current one, else the key is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final, Literal, get_args

from rs_assets.common.node import Family, Node
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.output import Aggregate, AggregateFunction, Ranking
from rs_assets.topology.nodes.timed import Side, TimedState
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

TableJoinType = Literal["inner", "left", "outer"]
# The names of the processors' states.
TABLE, GROUP, TABLE_JOIN, FOREIGN_JOIN, STREAM_TABLE = "table", "group", "table_join", "foreign_join", "stream_table"
TABLE_TOP, VERSIONS, LEFT_ROWS = "table_top", "versions", "left_rows"
# The end of the name of the gate that refuses rows without a key; one for their times, named as the step, may follow.
KEY: Final = ".key"
# The aggregates that a row can be subtracted from; others keep the rows of a group.
SUBTRACTED: Final[tuple[AggregateFunction, ...]] = ("count", "sum", "avg")


@dataclass(frozen=True, slots=True, kw_only=True)
class UntimedState(TimedState):
    """A step whose state has no event time: no watermark closes it, and none of its rows is late."""

    @property
    def untimed(self) -> bool:
        """Whether no watermark reaches it: always."""
        return True

    @property
    def event_time(self) -> str | None:
        """None: its rows have no event time."""
        return None

    @property
    def sides(self) -> tuple[Side, ...]:
        """None: no input has an event time."""
        return ()

    @property
    def endless(self) -> bool:
        """Whether the end of input leaves its state as it is: always."""
        return True

    @property
    def goes_by_time(self) -> bool:
        """Whether it may emit rows when time advances: never."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState(UntimedState):
    """A step whose rows are the changes of a table with the key `keys`."""

    family: ClassVar[Family] = "table"

    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse no key, or a duplicate."""
        TimedState.__post_init__(self)
        folded = {key.casefold() for key in self.keys}
        if not self.keys or len(folded) != len(self.keys):
            raise TopologyError(
                f"the key of table {self.name!r} must name at least one field and none twice:"
                f" {', '.join(self.keys) or 'none'}",
                remedy="name the fields that identify a row: .to_table('id')",
                step=self.name,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTable(TableState):
    """The newest row of each key; a row for which `deletes` holds removes its key.

    The newest row is the greatest by `order_by`, else the one read last. With `time_to_live` a row goes when the
    watermark has passed its event time, the field `time_field`, by that.
    """

    order_by: tuple[str, ...] = ()
    deletes: SqlText | ColumnBuilder | None = None
    time_field: str | None = None
    time_to_live: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse a time to live without a time, or of no length."""
        TableState.__post_init__(self)
        if self.time_to_live is None:
            return
        checked_duration(self.time_to_live, what=f"the time to live of table {self.name!r}")
        if self.time_field is None:
            raise TopologyError(
                f"table {self.name!r} has a time to live, but no event time",
                remedy="name the field of its event time: time_field='ts'",
                step=self.name,
            )

    @property
    def key_gate(self) -> str:
        """The name under which its rows are counted, and those without a key refused."""
        return f"{self.name}{KEY}"

    @property
    def untimed(self) -> bool:
        """Whether no watermark reaches it: if its rows live for ever."""
        return self.time_to_live is None

    @property
    def event_time(self) -> str | None:
        """The time that rows live from."""
        return self.time_field if self.time_to_live is not None else None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its input, if rows expire."""
        return () if self.untimed else (Side(self.name, self.event_time, self.delay),)

    @property
    def goes_by_time(self) -> bool:
        """Whether rows expire when time advances."""
        return not self.untimed

    @property
    def solitary(self) -> bool:
        """Whether no other step by event time may share its query: if rows expire by its watermark."""
        return not self.untimed

    @property
    def own_delay(self) -> bool:
        """Whether rows may be out of order without being late: always, none is."""
        return True

    @property
    def variable(self) -> str:
        """The name of its state."""
        return TABLE

    def detail(self) -> str:
        """The key, the order of its rows, and how long they live."""
        order = f", newest by {', '.join(self.order_by)}" if self.order_by else ""
        lives = f", each for {self.time_to_live}" if self.time_to_live is not None else ""
        return f"by {', '.join(self.keys)}{order}{lives}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides which row of a key is in state."""
        gone = self.deletes.identity() if self.deletes is not None else None
        lives = f"lives={self.time_to_live} by {self.time_field}" if self.time_to_live is not None else None
        more = (f"deletes={gone}" if gone else None, lives)
        return (",".join(self.keys), f"by={','.join(self.order_by)}", *filter(None, more))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersions(Node):
    """The records of a table with the key `keys`, each a version of its row that is valid from `time_field` on.

    A record for which `deletes` holds ends the row. Records without a key or a time are bad records.
    """

    keys: tuple[str, ...]
    time_field: str
    deletes: SqlText | ColumnBuilder | None = None

    @property
    def key_gate(self) -> str:
        """The name under which the records are counted, and those without a key or a time refused."""
        return f"{self.name}{KEY}"

    def detail(self) -> str:
        """The key and the time."""
        return f"by {', '.join(self.keys)}, valid from {self.time_field}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides which versions are in state."""
        return (self.detail(), *((f"deletes={self.deletes.identity()}",) if self.deletes is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroup(TableState):
    """Aggregates over the rows of a table by the fields `keys`; a group without rows has no row.

    `own` are Spark aggregates by name, which follow the others. With `appends` the input is a stream, whose rows never
    go. With `nulls` rows with a null among the fields are a group, as in SQL; else they are in none.
    """

    aggregates: tuple[Aggregate, ...] = ()
    own: tuple[tuple[str, SqlText | ColumnBuilder], ...] = ()
    appends: bool = False
    nulls: bool = False

    def __post_init__(self) -> None:
        """Refuse a group without aggregates, and duplicate column names."""
        TableState.__post_init__(self)
        if not (self.aggregates or self.own):
            raise TopologyError(
                f"step {self.name!r} aggregates nothing", remedy="add .count('rows') or another aggregate"
            )
        folded = [name.casefold() for name in (*self.keys, *self.values)]
        twice = sorted({name for name in folded if folded.count(name) > 1})
        if twice:
            raise TopologyError(
                f"step {self.name!r} would have two columns called {', '.join(twice)}",
                remedy="give the aggregate another name",
                step=self.name,
            )

    @property
    def values(self) -> tuple[str, ...]:
        """The names of its aggregates."""
        return (*(each.alias for each in self.aggregates), *(name for name, _ in self.own))

    @property
    def subtracts(self) -> bool:
        """Whether a row that goes is subtracted; else the rows of each group are kept in state."""
        return not self.own and all(each.function in SUBTRACTED for each in self.aggregates)

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows of each group are in state."""
        return not (self.appends or self.subtracts)

    @property
    def variable(self) -> str:
        """The name of its state."""
        return GROUP

    def detail(self) -> str:
        """The fields and the aggregates."""
        kept = ", keeps the rows of each group" if self.keeps_rows else ""
        return f"{', '.join(self.values)} by {', '.join(self.keys)}{kept}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state."""
        made = (f"{each.function}({each.field})={each.alias}" for each in self.aggregates)
        flags = [name for name, on in (("appends", self.appends), ("nulls", self.nulls)) if on]
        return (",".join(self.keys), *made, *(f"{value.identity()}={name}" for name, value in self.own), *flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTop(TableState):
    """The first `n` rows of a table in each group by `groups`, in the order of `by`, then of their keys.

    `by` are fields, each with whether it descends. `rank` is the field of a row's number, from 1; None for no such
    field. With `nulls` rows with a null among `groups` are a group, as in SQL; else they are in none.
    """

    groups: tuple[str, ...]
    by: tuple[tuple[str, bool], ...]
    n: int
    rank: str | None = None
    nulls: bool = False

    def __post_init__(self) -> None:
        """Refuse a ranking without groups, without an order, and of too many rows."""
        TableState.__post_init__(self)
        Ranking(n=self.n, by=tuple(name for name, _ in self.by))
        if not self.groups:
            raise TopologyError(
                f"step {self.name!r} ranks the rows of no group",
                remedy="name fields, .group_by('user'); for all rows one that all have: .with_fields(all_rows='1')",
                step=self.name,
            )

    @property
    def variable(self) -> str:
        """The name of its state."""
        return TABLE_TOP

    def detail(self) -> str:
        """The number of rows, the groups and the order."""
        order = ", ".join(f"{name} descending" if down else name for name, down in self.by)
        return f"first {self.n} of {', '.join(self.groups)} by {order}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state; the number of rows does not, but decides what was emitted."""
        return (",".join(self.keys), self.detail(), f"rank={self.rank}", *(("nulls",) if self.nulls else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin(TableState):
    """The rows of two tables, whose fields `on` are equal.

    `inputs` are the left and the right one. The fields `on` of the right table are its key; if those of the left one
    are not, they are a foreign key. `keys` are those of the left table. With `both_keys`, the keys of both tables, the
    fields `on` are any: a row has any number of partners, and `keys` are those of a pair. With `nulls` the keys of both
    tables may be null, and such a row has no partner. `prefix` is put before the names of right fields; without it,
    fields of the same name are those of the left table.
    """

    on: tuple[tuple[str, str], ...]
    how: TableJoinType = "inner"
    prefix: str | None = None
    both_keys: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    nulls: bool = False

    def __post_init__(self) -> None:
        """Refuse joins that no table has."""
        TableState.__post_init__(self)
        if self.how not in get_args(TableJoinType):
            raise TopologyError(
                f"step {self.name!r} cannot join {self.how!r}",
                remedy=f"use one of: {', '.join(get_args(TableJoinType))}",
                step=self.name,
            )

    @property
    def by(self) -> Literal["keys", "foreign", "pairs"]:
        """Which fields are equal: the keys of both, a foreign key and a key, or any."""
        if self.both_keys is not None:
            return "pairs"
        # By a foreign key each row has its own key besides, so that one with a null is alone.
        return "keys" if tuple(own for own, _ in self.on) == self.keys and not self.nulls else "foreign"

    @property
    def variable(self) -> str:
        """The name of its state, of a join of pairs that of left rows."""
        return {"keys": TABLE_JOIN, "foreign": FOREIGN_JOIN, "pairs": LEFT_ROWS}[self.by]

    def detail(self) -> str:
        """The kind of join and its fields."""
        return f"{self.how} on {pairs_text(self.on)}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state."""
        of_both = [f"of={','.join(keys)}" for keys in self.both_keys or ()]
        return (self.how, pairs_text(self.on), ",".join(self.keys), f"foreign={self.by == 'foreign'}", *of_both)

    @property
    def reading(self) -> tuple[str, ...]:
        """The names that it gives to right fields: rows that it has emitted have them."""
        return (f"prefix={self.prefix}",) if self.prefix is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoin(UntimedState):
    """The rows of a stream, each with the current row of a table whose key equals the fields `on`.

    `inputs` are the stream and the table. A batch changes the table first; changes of the table alone emit nothing.
    With `time_fields` the second input are the versions of the table, kept for `history`; a row of the stream gets the
    one that is valid at its time. `wait_for_table`: a first start reads the stream after the table.
    """

    family: ClassVar[Family] = "table"

    on: tuple[tuple[str, str], ...]
    how: Literal["inner", "left"] = "inner"
    prefix: str | None = None
    time_fields: tuple[str, str] | None = None
    history: timedelta | None = None
    wait_for_table: bool = False

    def __post_init__(self) -> None:
        """Refuse joins that emit rows when the table changes."""
        TimedState.__post_init__(self)
        if self.history is not None:
            checked_duration(self.history, what=f"the history of the table in step {self.name!r}")
        if self.how not in ("inner", "left"):
            raise TopologyError(
                f"step {self.name!r} cannot join {self.how!r}: changes of the table emit nothing",
                remedy="use one of: inner, left",
                step=self.name,
            )

    @property
    def variable(self) -> str:
        """The name of its state."""
        return STREAM_TABLE if self.time_fields is None else VERSIONS

    def detail(self) -> str:
        """The kind of join and its fields."""
        versions = f", the version of its {self.time_fields[0]}, {self.history} back" if self.time_fields else ""
        waits = ", waits for the table" if self.wait_for_table else ""
        return f"{self.how} on {pairs_text(self.on)}{versions}{waits}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state."""
        versions = (f"times={self.time_fields}", f"history={self.history}") if self.time_fields else ()
        return (self.how, pairs_text(self.on), *versions)

    @property
    def reading(self) -> tuple[str, ...]:
        """The names that it gives to right fields: rows that it has emitted have them."""
        return (f"prefix={self.prefix}",) if self.prefix is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges(Node):
    """The changes of a table with the key `keys` as a stream, in which the flag is the field `retracted`."""

    keys: tuple[str, ...] = ()

    def detail(self) -> str:
        """The key of the rows that change."""
        return f"by {', '.join(self.keys)}"


def pairs_text(on: tuple[tuple[str, str], ...]) -> str:
    """The pairs of fields of a join, for people.

    >>> pairs_text((("id", "id"), ("user", "uid")))
    'id, user = uid'
    """
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in on)
