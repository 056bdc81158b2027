"""Tables as sources: WITH (...) selects a source of the fluent API, columns become its schema and computed fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.errors import SqlError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.trigger import ONCE
from rs_assets.records.schema import ddl_of
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.expectations import expected
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import Planner, QueryContext, added, step_name
from rs_assets.sql.plan.relation import Column, Relation, of_names
from rs_assets.sql.plan.tables.table_refs import origin
from rs_assets.sql.read.durations import duration
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.options import CONNECTORS, Options, names_of
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.statements import Column as Declared
from rs_assets.sql.read.statements import CreateTable
from rs_assets.sql.systems.form import SqlSource
from rs_assets.sql.systems.registry import SQL_SOURCES
from rs_assets.sql.systems.source_table import SourceTable
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.table import Table

# The field of a record of a table: whether it ends the row before it.
ENDS: Final = "row_ends"


def source_of(planner: Planner, table: CreateTable, context: QueryContext, *, versions: bool = False) -> Relation:
    """The rows of a table, with its computed columns; its `versions` are records with ENDS and an event time.

    All statements share a source.
    """
    key = (table.name.text, context.reading, ONCE, versions)
    if key not in planner.made:
        planner.made[key] = _read(planner, table, replace(context, base=step_name(key[0])), versions=versions)
    return planner.made[key]


def _read(planner: Planner, table: CreateTable, context: QueryContext, *, versions: bool) -> Relation:
    name = planner.name(context, "", table.name.start)
    options = Options.of(planner.text, table, "source")
    bound = planner.bound.get(table.name.text)
    kind = connector(options, bound, SQL_SOURCES)
    source = SQL_SOURCES[kind]
    _check_metadata(planner, table, source)
    made = source.read(SourceTable(planner.begin, options, _schema(table, options), name, bound, versions))
    options.check_all_read()
    if versions:
        made = _records(made, options, name)
    keys = made.keys if isinstance(made, Table) else None
    if keys is not None and table.watermark is not None:
        raise options.error(
            f"the table {table.name.text!r} has a PRIMARY KEY, and rows that change have no event time",
            at=table.watermark.column.start,
            remedy="remove the WATERMARK, or the PRIMARY KEY to read each record as a row; or join its versions,"
            " FOR SYSTEM_TIME AS OF the event time of a stream",
        )  # fmt: skip
    stream = DataStream(made.draft, made.step)
    if table.partitioned_by and table.name.text not in planner.bound:
        raise options.error(
            "columns are read from records, not from folder names", at=table.partitioned_by[0].start,
            remedy="remove PARTITIONED BY if the records have its columns",
        )  # fmt: skip
    kinds = {column.name.text: column.type for column in table.columns if column.computed is None}
    relation = Relation(
        stream=_renamed(planner, stream, table, context, kind, [ENDS] * versions),
        fields=(*kinds, *[ENDS] * versions),
        columns=of_names(kinds),
        origins=frozenset({origin(table.name.text, context.reading)}),
        stateful=keys is not None,
        keys=keys,
        changes=keys is not None,
    )
    rows = expected(planner, _computed(planner, relation, table, context), table, context)
    return _with_time(planner, rows, table)


def _records(made: DataStream | Table, options: Options, name: str) -> DataStream:
    """The records that a table was made of, with ENDS."""
    if not isinstance(made, Table) or made.records is None:
        raise options.error(
            f"the versions of {options.table.name.text!r} are not known: its connector gives changes",
            remedy="read records: 'connector' = 'upsert-kafka', or files with 'deletes'",
        )
    made.draft.leave_out(made.step)
    records = DataStream(made.draft, made.records.step)
    ends = "false" if made.records.deletes is None else f"coalesce({made.records.deletes}, false)"
    return records.with_fields(**{ENDS: ends}, name=f"{name}_ends")


def connector(options: Options, bound: object, known: Iterable[str]) -> str:
    """The connector of a table; 'memory' if the program passes rows or a channel for it."""
    if bound is not None:
        options.take("connector")
        return "memory"
    pair = options.found.get("connector")
    name = options.need("connector", "kafka")
    names = names_of(known)
    if name not in names:
        raise options.error(
            f"unknown connector {name!r} for a {options.use}", at=pair[1].start if pair else None,
            remedy=nearest(name, names),
        )  # fmt: skip
    return CONNECTORS.get(name, name)


def _schema(table: CreateTable, options: Options) -> str:
    """The columns of the records, as DDL."""
    if not table.kinds:
        raise options.error(f"the table {table.name.text!r} has no columns", remedy="declare one with its type")
    return ddl_of(table.kinds)


def _check_metadata(planner: Planner, table: CreateTable, source: SqlSource) -> None:
    named = (column.metadata for column in table.columns if column.metadata is not None)
    unknown = next((word for word in named if word.text not in source.metadata), None)
    if unknown is not None:
        those = ", ".join(name for name, each in SQL_SOURCES.items() if each.metadata)
        has = f"there are: {', '.join(source.metadata)}" if source.metadata else f"connectors that have it: {those}"
        raise planner.error(f"unknown metadata {unknown.text!r}", unknown.start, remedy=has)


def _renamed(
    planner: Planner, stream: DataStream, table: CreateTable, context: QueryContext, kind: str, more: Sequence[str]
) -> DataStream:
    """The stream with metadata renamed to their columns, and fields besides."""
    found = [column for column in table.columns if column.metadata is not None]
    if not found:
        return stream
    declared = [quote_name(column.name.text) for column in table.declared]
    named = [f"{_of_record(planner, column, kind)} AS {quote_name(column.name.text)}" for column in found]
    return stream.map(*declared, *named, *more, name=planner.name(context, "metadata", table.name.start))


def _of_record(planner: Planner, column: Declared, kind: str) -> str:
    """A metadata column as the type that it declares."""
    assert column.metadata is not None  # checked before
    key, source = column.metadata.text, SQL_SOURCES[kind]
    given, wanted = source.metadata[key].replace(" ", ""), column.type.text if column.type else ""
    if wanted == "map<string,binary>" and key in source.as_maps:
        return source.as_maps[key]
    nested = "<" in given
    if nested and wanted not in ("", given.replace(":", " "), given):
        raise planner.error(f"record {key} cannot be {wanted.upper()}", column.name.start, remedy="MAP<STRING, BYTES>")
    name = quote_name(f"{kind}_{key}")
    return f"cast({name} AS {wanted})" if wanted not in ("", given) and not nested else name


def _computed(planner: Planner, relation: Relation, table: CreateTable, context: QueryContext) -> Relation:
    """The columns in the order of the declaration; computed ones may use those of the source."""
    columns, texts = [], dict[str, str]()
    for column in table.columns:
        name = column.name.text
        if column.computed is None:
            columns.append(next(c for c in relation.columns if c.name == name))
            continue
        value = planner.over(relation).value(column.computed)
        if value.role == "proctime":
            columns.append(Column(name, value))
        else:
            texts[name] = value.plain
            columns.append(Column(name, Value(quote_name(name), value.type)))
    if not texts:
        return replace(relation, columns=tuple(columns))
    if relation.changes:
        check_steady(planner, map(Value, texts.values()), table.name.start)
    stream = added(relation.stream, texts, planner.name(context, "computed", table.name.start))
    return replace(relation, stream=stream, columns=tuple(columns), fields=(*relation.fields, *texts))


def _with_time(planner: Planner, relation: Relation, table: CreateTable) -> Relation:
    """The relation with its event time, if a watermark declares one."""
    mark = table.watermark
    if mark is None:
        return relation
    name = mark.column.text
    value = next(c.value for c in relation.columns if c.name == name)
    if value.type is not None and value.type.name != "timestamp":
        raise planner.error(
            f"the watermark's column {name!r} is a {value.type.text.upper()}, not a timestamp",
            mark.column.start,
            remedy=f"compute one: ts AS TO_TIMESTAMP_LTZ({name}, 3), WATERMARK FOR ts AS ts",
        )
    columns = tuple(
        replace(c, value=replace(c.value, role="rowtime")) if c.name == name else c for c in relation.columns
    )
    return replace(relation, columns=columns, delay=_delay(planner, mark.expression, name))


def _delay(planner: Planner, tree: Any, name: str) -> timedelta:
    """How far rows may be out of order: `ts`, `ts - INTERVAL ...` or `withOffset(ts, ms)`."""
    if tree.key == "column" and tree.name == name:
        return timedelta(0)
    if tree.key == "sub" and tree.this.key == "column" and tree.this.name == name:
        return duration(planner.text, tree.expression)
    if tree.key == "anonymous" and tree.name == f"{CALL}WITHOFFSET" and len(tree.expressions) == 2:
        column, millis = tree.expressions
        if column.name == name and millis.name.isdigit():
            return timedelta(milliseconds=int(millis.name))
    raise _no_delay(planner, tree, name)


def _no_delay(planner: Planner, tree: Any, name: str) -> SqlError:
    return planner.error("unsupported watermark", tree, remedy=f"write {name} - INTERVAL '4' SECOND, or {name}")
