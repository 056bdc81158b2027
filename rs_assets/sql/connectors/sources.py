"""Tables as sources: WITH (...) selects a source of the fluent API, columns become its schema and computed fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.kafka.nodes import KAFKA_METADATA
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import SqlError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Planner, QueryContext, added
from rs_assets.sql.plan.relation import Column, Relation, of_names
from rs_assets.sql.plan.table_refs import origin
from rs_assets.sql.read.durations import duration
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.options import CONNECTORS, TRUTH, Options
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.statements import Column as Declared
from rs_assets.sql.read.statements import CreateTable

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream

# Rows, or a channel of rows, that the program passes for a table.
Bound = MemoryChannel | Iterable[Mapping[str, Any]]
POLICIES: Final = {name: name for name in ("fail", "dead_letter", "quarantine", "skip")}
FORMATS: Final = {"json": "json", "csv": "csv", "raw": "text", "text": "text"}
STARTS: Final = {
    "earliest-offset": "earliest",
    "latest-offset": "latest",
    "group-offsets": "committed",
    "timestamp": "timestamp",
}
# Kafka headers as Flink declares them; the last header with a key wins.
HEADERS_AS_MAP: Final = (
    "aggregate(coalesce(kafka_headers, array()), cast(map() AS map<string,binary>), (found, each) -> "
    "map_concat(map_filter(found, (k, v) -> k <> each.key), map(each.key, each.value)))"
)
CHANGES: Final = "upsert-kafka"


def source_of(planner: Planner, table: CreateTable, context: QueryContext) -> Relation:
    """The rows of a table, with its computed columns."""
    name = planner.name(context, "", table.name.start)
    options = Options.of(planner.text, table, "source")
    stream = _stream(planner, table, options, name)
    options.check_all_read()
    if table.partitioned_by and table.name.text not in planner.bound:
        raise options.error(
            "columns are read from records, not from folder names", at=table.partitioned_by[0].start,
            remedy="remove PARTITIONED BY if the records have its columns",
        )  # fmt: skip
    kinds = {column.name.text: column.type for column in table.columns if column.computed is None}
    _check_metadata(planner, table, options)
    relation = Relation(
        stream=_renamed(planner, stream, table, context),
        fields=tuple(kinds),
        columns=of_names(kinds),
        origins=frozenset({origin(table.name.text, context.reading)}),
    )
    return _with_time(planner, _computed(planner, relation, table, context), table)


def connector(options: Options, bound: object, known: Iterable[str]) -> str:
    """The connector of a table; 'memory' if the program passes rows or a channel for it."""
    if bound is not None:
        options.take("connector")
        return "memory"
    pair = options.found.get("connector")
    name = options.need("connector", "kafka")
    name = CONNECTORS.get(name, name)
    if name not in known:
        raise options.error(
            f"unknown connector {name!r} for a {options.use}", at=pair[1].start if pair else None,
            remedy=nearest(name, known),
        )  # fmt: skip
    return name


def _stream(planner: Planner, table: CreateTable, options: Options, name: str) -> DataStream:
    bound = planner.bound.get(table.name.text)
    made = SOURCES[connector(options, bound, SOURCES)]
    schema = ", ".join(f"{quote_name(c.name.text)} {c.type.text}" for c in table.declared if c.type is not None)
    if not schema:
        raise options.error(f"the table {table.name.text!r} has no columns", remedy="declare one with its type")
    return made(planner, options, schema, name, bound)


def _files(planner: Planner, options: Options, schema: str, name: str, bound: Any) -> DataStream:  # noqa: ARG001
    form = options.choice("format", FORMATS, "json")
    path = options.need("path", "/data/clicks").removeprefix("file://")
    follow = bool(options.choice("follow", TRUTH, "false"))
    settings: dict[str, Any] = {"header": options.choice("csv.header", TRUTH, "false")} if form == "csv" else {}
    return planner.begin.from_file(
        path,
        form,
        schema=None if form == "text" else schema,
        tail=follow,
        bad_records=str(options.choice("bad-records", POLICIES, "fail")),
        max_files_per_batch=options.number("max-files-per-batch"),
        max_rows_per_batch=options.number("max-rows-per-batch"),
        name=name,
        **settings,
    )


def _kafka(planner: Planner, options: Options, schema: str, name: str, bound: Any) -> DataStream:  # noqa: ARG001
    _check_appends(options)
    start: Any = options.choice("scan.startup.mode", STARTS, "earliest-offset")
    if start == "timestamp":
        millis = options.number("scan.startup.timestamp-millis")
        if millis is None:
            raise options.error(
                "'scan.startup.mode' = 'timestamp' needs a start time",
                at=options.table.options["scan.startup.mode"][1].start,
                remedy="'scan.startup.timestamp-millis' = '1767225600000'",
            )
        start = datetime.fromtimestamp(millis / 1000, tz=UTC)
    options.choice("format", {"json": "json"}, "json")
    topics = tuple(filter(None, (options.take("topic") or "").split(";")))
    metadata = [c.metadata.text.removeprefix("kafka_") for c in options.table.columns if c.metadata is not None]
    return planner.begin.from_kafka(
        options.need("properties.bootstrap.servers", "localhost:9092"),
        topics=topics,
        pattern=options.take("topic-pattern"),
        group=options.take("properties.group.id"),
        schema=schema,
        starting_offsets=start,
        metadata=metadata,
        bad_records=str(options.choice("bad-records", POLICIES, "fail")),
        max_rows_per_batch=options.number("max-rows-per-batch") or 1_000_000,
        name=name,
    )


def _check_appends(options: Options) -> None:
    """SqlError for a changelog topic: each of its records would be a row, and none would replace or delete one."""
    table, remedy = options.table, "read the changes as rows: 'connector' = 'kafka', without PRIMARY KEY"
    named = next((value for _, value in table.options.values() if value.text == CHANGES), None)
    if named is not None:
        raise options.error(
            "'upsert-kafka' cannot be read: changelog sources are not supported", at=named.start, remedy=remedy
        )
    if table.key:
        what = f"the source {table.name.text!r} cannot have a PRIMARY KEY: each record of a topic is a row"
        raise options.error(what, at=table.key[0].start, remedy=remedy)


def _sqlite(planner: Planner, options: Options, schema: str, name: str, bound: Any) -> DataStream:  # noqa: ARG001
    return planner.begin.from_sqlite(
        options.need("path", "shop.db"), options.need("table", "orders"), schema=schema, name=name
    )


def _memory(planner: Planner, options: Options, schema: str, name: str, bound: Any) -> DataStream:
    if bound is None:
        table = options.table.name.text
        raise options.error(
            f"the table {table!r} has no rows", remedy=f"pipeline_from_sql(..., tables={{{table!r}: rows}})"
        )
    if isinstance(bound, MemoryChannel):
        return planner.begin.from_memory(bound, name=name)
    return planner.begin.from_array(bound, schema=schema, name=name)


Source = Callable[[Planner, Options, str, str, Any], "DataStream"]
SOURCES: Final[Mapping[str, Source]] = MappingProxyType(
    {"filesystem": _files, "kafka": _kafka, "sqlite": _sqlite, "memory": _memory}
)


def _check_metadata(planner: Planner, table: CreateTable, options: Options) -> None:
    for column in table.columns:
        if column.metadata is None:
            continue
        if column.metadata.text not in KAFKA_METADATA or "topic" not in options.known:
            raise planner.error(
                f"unknown metadata {column.metadata.text!r}",
                column.metadata.start,
                remedy=f"Kafka has:  {', '.join(KAFKA_METADATA)}",
            )


def _renamed(planner: Planner, stream: DataStream, table: CreateTable, context: QueryContext) -> DataStream:
    """The stream with metadata renamed to their columns."""
    found = [column for column in table.columns if column.metadata is not None]
    if not found:
        return stream
    declared = [quote_name(column.name.text) for column in table.declared]
    named = [f"{_of_record(planner, column)} AS {quote_name(column.name.text)}" for column in found]
    return stream.map(*declared, *named, name=planner.name(context, "metadata", table.name.start))


def _of_record(planner: Planner, column: Declared) -> str:
    """A metadata column as the type that it declares."""
    assert column.metadata is not None  # noqa: S101  checked before
    key = column.metadata.text
    given, wanted = KAFKA_METADATA[key].replace(" ", ""), column.type.text if column.type else ""
    if key == "headers" and wanted == "map<string,binary>":
        return HEADERS_AS_MAP
    if key == "headers" and wanted not in ("", given.replace(":", " "), given):
        raise planner.error(
            f"record headers cannot be {wanted.upper()}", column.name.start, remedy="MAP<STRING, BYTES>"
        )
    name = quote_name(f"kafka_{key}")
    return f"cast({name} AS {wanted})" if wanted not in ("", given) and key != "headers" else name


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
