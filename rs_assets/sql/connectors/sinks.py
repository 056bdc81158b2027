"""Tables as sinks: writes the columns of a query, by position, as the declared columns to a sink of the fluent API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rs_assets.common.plural import count_of
from rs_assets.expressions.functions.literals import quote_name
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
from rs_assets.sql.read.options import CONNECTORS, ORDER_BY, Options
from rs_assets.sql.read.statements import Column, CreateTable, Insert
from rs_assets.sql.read.types import is_number
from rs_assets.sql.systems.form import SqlSink
from rs_assets.sql.systems.registry import SQL_SINKS
from rs_assets.sql.systems.sink_table import RETRACTED, SinkTable, check_marked

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream


def upsert_columns(planner: Planner, insert: Insert) -> tuple[Column, ...]:
    """The written columns, if the sink can keep the newest row of each key; empty for any other sink."""
    table = planner.catalog.table(insert.table.text, insert.table.start)
    options = Options.of(planner.text, table, "sink")
    kind = connector(options, planner.bound.get(table.name.text), SQL_SINKS)
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
    sink = SQL_SINKS[connector(options, bound, SQL_SINKS)]
    _check_updates(planner, insert, made, sink)
    _check_declared(table, options, sink)
    name = planner.name(context, "", insert.table.start)
    result = sink.write(SinkTable(options, stream, name, planner, insert, table, columns, _written(table), made))
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
    check_marked(planner, insert, table)
    return [RETRACTED]


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
    return table.written(SQL_SINKS[kind].metadata if kind in SQL_SINKS else ())


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
    if kind is not None and not fits(value.type, kind, decimals=planner.text.dialect == "spark"):
        known = value.type.text.upper() if value.type else ""
        raise planner.error(
            f"the column {column.name.text!r} is {kind.text.upper()}, but {known} is selected for it",
            out.at,
            remedy="declare the column as what is selected" if kind.nested else f"CAST(... AS {kind.text.upper()})",
        )
    if kind is not None and (value.type is None or value.type.text != kind.text):
        # A number that its column cannot hold ends the run; a CAST of Flink would keep its lowest bits, or be null.
        strict = value.type is None or (is_number(value.type) and is_number(kind))
        value = Value(f"cast({value.plain} AS {kind.text})") if strict else cast(planner.text, value, kind, out.at)
    return f"{value.plain} AS {quote_name(column.name.text)}"


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
