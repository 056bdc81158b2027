"""Tables as sinks: writes the columns of a query, by position, as the declared columns to a sink of the fluent API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rs_assets.common.plural import count_of
from rs_assets.connectors.connector import SqlSink
from rs_assets.connectors.registry import sql_sinks
from rs_assets.errors import SqlError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.records.types import NESTED
from rs_assets.sql.connectors.sources import connector
from rs_assets.sql.connectors.tables import unknown_column
from rs_assets.sql.expressions.casts import cast, fits
from rs_assets.sql.expressions.constants import in_range
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.catalog import ALLOW
from rs_assets.sql.plan.expectations import expected, without_nulls
from rs_assets.sql.plan.outputs import Output, Selected, check_steady
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation, of_names
from rs_assets.sql.plan.windowing import check_bounds, check_once
from rs_assets.sql.read.options import CONNECTORS, Options
from rs_assets.sql.read.statements import Column, CreateTable, Insert

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

# The column that marks retractions, for queries that retract rows.
RETRACTED: Final = "retracted"
ORDER_BY: Final = "order-by"


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table that is written: its options, the rows of the query, and how they change the table."""

    options: Options
    rows: DataStream
    name: str
    planner: Planner
    insert: Insert
    table: CreateTable
    columns: Sequence[Column]
    made: Selected

    @property
    def stream(self) -> DataStream:
        """The rows of the query; those of a table that changes have the field `retracted`."""
        if not self.made.relation.changes:
            return self.rows
        _check_marked(self.planner, self.insert, self.table)
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
        return {c.metadata.text: c.name.text for c in _written(self.table) if c.metadata is not None}

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
        return keys_of(self.planner, self.insert, self.table, self.columns, self.made)

    def order_by(self) -> tuple[str, ...]:
        """The columns that decide which of two rows with one key is newer: those of the option `order-by`.

        A query that leaves the decision to the table names them itself. For ties the other columns decide, as far as
        they can be ordered.
        """
        positions = [_position(self.made, field) for field in self.made.relation.latest or ()]
        if not positions:
            return tuple(filter(None, (self.options.take(ORDER_BY) or "").split(",")))
        newest = [self.columns[position].name.text for position in positions if position is not None]
        others = [column.name.text for column in self.columns if column.type is None or column.type.name not in NESTED]
        keys = self.keys()
        return tuple(name for name in dict.fromkeys([*newest, *others]) if name not in keys)


def upsert_columns(planner: Planner, insert: Insert) -> tuple[Column, ...]:
    """The written columns, if the sink can keep the newest row of each key; empty for any other sink."""
    table = planner.catalog.table(insert.table.text, insert.table.start)
    options = Options.of(planner.text, table, "sink")
    kind = connector(options, planner.bound.get(table.name.text), sql_sinks())
    return tuple(_targets(planner, insert, table)) if kind == "delta" and options.take(ORDER_BY) is None else ()


def written(planner: Planner, insert: Insert, made: Selected, context: QueryContext) -> DataStream:
    """Writes the rows of an INSERT to its sink."""
    table = planner.catalog.table(insert.table.text, insert.table.start)
    check_once(planner, made.relation, insert.table.start)
    columns = _targets(planner, insert, table)
    if len(columns) != len(made.outputs):
        raise planner.error(
            f"{count_of(len(made.outputs), 'column')} selected for the {len(columns)} of {table.name.text!r}",
            insert.table.start,
            remedy=f"select: {', '.join(column.name.text for column in columns)}",
        )
    _check_order(planner, insert, columns, made.outputs)
    texts = [_text(planner, column, out) for column, out in zip(columns, made.outputs, strict=True)]
    missing = [column for column in _written(table) if column not in columns]
    texts += [f"cast(NULL AS {c.type.text if c.type else 'string'}) AS {quote_name(c.name.text)}" for c in missing]
    texts += _retracted(planner, insert, table, made)
    if made.relation.changes:
        check_steady(planner, map(Value, texts), insert.table.start)
    stream = made.relation.stream.map(*texts, name=planner.name(context, "row", insert.table.start))
    stream = _checked(planner, insert, table, replace(made.relation, stream=stream), context)
    options = Options.of(planner.text, table, "sink")
    bound = planner.bound.get(table.name.text)
    sink = sql_sinks()[connector(options, bound, sql_sinks())]
    _check_updates(planner, insert, made, sink)
    _check_declared(table, options, sink)
    name = planner.name(context, "", insert.table.start)
    result = sink.write(SinkTable(options, stream, name, planner, insert, table, columns, made))
    options.check_all_read()
    return result


def _checked(
    planner: Planner, insert: Insert, table: CreateTable, relation: Relation, context: QueryContext
) -> DataStream:
    """The rows that the table's constraints leave."""
    columns = _written(table)
    named = replace(relation, columns=of_names({column.name.text: column.type for column in columns}))
    return expected(planner, without_nulls(planner, named, columns, context, insert.table.start), table, context).stream


def _retracted(planner: Planner, insert: Insert, table: CreateTable, made: Selected) -> list[str]:
    """The field that marks retractions, if the query retracts rows."""
    if not made.relation.retracts:
        return []
    _check_marked(planner, insert, table)
    return [RETRACTED]


def _check_marked(planner: Planner, insert: Insert, table: CreateTable) -> None:
    """SqlError for a column of the name that marks retractions."""
    if any(column.name.text.casefold() == RETRACTED for column in table.declared):
        raise planner.error(
            f"the column {RETRACTED!r} of the query marks retractions", insert.table.start,
            remedy="rename the column of the table",
        )  # fmt: skip


def _targets(planner: Planner, insert: Insert, table: CreateTable) -> list[Column]:
    """The written columns, in the order of the select list."""
    written = _written(table)
    if not insert.columns:
        return list(written)
    known = {column.name.text: column for column in written}
    for position, word in enumerate(insert.columns):
        if word.text in (other.text for other in insert.columns[:position]):
            raise planner.error(f"duplicate column {word.text!r}", word.start, remedy="leave one out")
        if word.text not in known:
            raise unknown_column(planner.text, word, known, table.name.text)
    return [known[word.text] for word in insert.columns]


def _written(table: CreateTable) -> Sequence[Column]:
    """The columns that a sink has, with the METADATA that its connector writes."""
    pair = table.options.get("connector")
    kind = CONNECTORS.get(pair[1].text, pair[1].text) if pair is not None else ""
    return table.written(sql_sinks()[kind].metadata if kind in sql_sinks() else ())


def _check_order(planner: Planner, insert: Insert, columns: Sequence[Column], outputs: Sequence[Output]) -> None:
    """SqlError if the names are those of the sink in another order: by position, values would land in other columns."""
    names, given = [column.name.text for column in columns], [out.name for out in outputs]
    if (
        insert.columns
        or names == given
        or sorted(names) != sorted(given)
        or planner.catalog.options.get(ALLOW) == "allow"
    ):
        return
    at = next(out.at for name, out in zip(names, outputs, strict=True) if name != out.name)
    raise planner.error(
        f"columns are matched by position, but {insert.table.text!r} has the same names in another order",
        at,
        remedy=f"INSERT INTO {insert.table.text} ({', '.join(given)}) SELECT ..., or SET '{ALLOW}' = 'allow'",
    )


def _text(planner: Planner, column: Column, out: Output) -> str:
    """A column of the sink, cast to the declared type."""
    value, kind = out.value, column.type
    check_bounds(planner, value, out.at)
    if kind is not None and not in_range(out.at.unalias() if hasattr(out.at, "unalias") else out.at, kind):
        what = f"the column {column.name.text!r} is {kind.text.upper()}, and the number is out of its range"
        raise planner.error(what, out.at, remedy="declare the column as DECIMAL(38, 0)")
    if kind is not None and not fits(value.type, kind):
        known = value.type.text.upper() if value.type else ""
        raise planner.error(
            f"the column {column.name.text!r} is {kind.text.upper()}, but {known} is selected for it",
            out.at,
            remedy=f"CAST(... AS {kind.text.upper()})",
        )
    if kind is not None and (value.type is None or value.type.text != kind.text):
        value = (
            Value(f"cast({value.plain} AS {kind.text})")
            if value.type is None
            else cast(planner.text, value, kind, out.at)
        )
    return f"{value.plain} AS {quote_name(column.name.text)}"


def keys_of(
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
    known = next((column.name for column in made.relation.columns if column.value.field == key), key)
    if known != key or made.relation.changes or any(each.name == key for each in insert.tree.find_all(exp.Column)):
        what, remedy = f"rows are replaced by {known!r}, which is not selected", f"select {known}"
    else:
        what = "rows are replaced by a computed key, which is not selected"
        remedy = "also select it in the query that groups by it or ranks: UPPER(page) AS upper_page"
    return planner.error(what, insert.table.start, remedy=remedy)


def _position(made: Selected, key: str) -> int | None:
    """The position of a selected key; the end of a window identifies it as well as its start."""
    values = [out.value for out in made.outputs]
    position = next((n for n, value in enumerate(values) if value.field == key), None)
    if position is None and key == "start_time":
        position = next((n for n, value in enumerate(values) if value.role in ("end", "last")), None)
    return position


def _check_updates(planner: Planner, insert: Insert, made: Selected, sink: SqlSink) -> None:
    if made.relation.keys is not None and not sink.updates:
        raise planner.error(
            "the query replaces rows, which this sink does not support", insert.table.start,
            remedy="write to 'connector' = 'delta', or group by a window",
        )  # fmt: skip


def _check_declared(table: CreateTable, options: Options, sink: SqlSink) -> None:
    """SqlError for declarations of a table that this sink does not support."""
    remedy = "leave it out, or write to 'connector' = 'delta'"
    if table.partitioned_by and not sink.partitions:
        at = table.partitioned_by[0].start
        raise options.error("this sink does not write by partitions", at=at, remedy=remedy)
    if table.key and not sink.keys:
        raise options.error(
            "this sink only appends rows, so it cannot have a PRIMARY KEY", at=table.key[0].start, remedy=remedy
        )
