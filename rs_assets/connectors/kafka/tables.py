"""Kafka topics as tables of SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.connector import SqlSink, SqlSource
from rs_assets.connectors.kafka.nodes import KAFKA_METADATA
from rs_assets.connectors.kafka.sink.settings import SETTINGS

if TYPE_CHECKING:
    from rs_assets.sql.connectors.sinks import SinkTable
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.sql.read.options import Options
    from rs_assets.stream.data_stream import DataStream

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
GUARANTEES: Final = {"at-least-once": "at_least_once", "exactly-once": "exactly_once"}
PROPERTIES: Final = "properties."
OF_SOURCES: Final = (
    "properties.group.id",
    "topic-pattern",
    "bad-records",
    "max-rows-per-batch",
    "scan.startup.mode",
    "scan.startup.timestamp-millis",
)


def _read(table: SourceTable) -> DataStream:
    options = table.options
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
    return table.begin.from_kafka(
        options.need("properties.bootstrap.servers", "localhost:9092"),
        topics=tuple(filter(None, (options.take("topic") or "").split(";"))),
        pattern=options.take("topic-pattern"),
        group=options.take("properties.group.id"),
        schema=table.schema,
        starting_offsets=start,
        metadata=table.metadata,
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 1_000_000,
        name=table.name,
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


def _write(table: SinkTable) -> DataStream:
    options = table.options
    options.choice("format", {"json": "json"}, "json")
    reading = next((pair[0] for key, pair in options.found.items() if key in OF_SOURCES), None)
    if reading is not None:
        remedy = "remove it, or declare another table to read from"
        raise options.error(f"{reading.text!r} is an option of sources", at=reading.start, remedy=remedy)
    found = table.keys()
    named = next((value for _, value in options.table.options.values() if value.text == CHANGES), None)
    if named is not None and len(found) != 1:
        raise options.error(
            "'upsert-kafka' writes rows by a key, and a Kafka record has one key", at=named.start,
            remedy="declare a PRIMARY KEY of one column",
        )  # fmt: skip
    if table.replace and len(found) != 1:
        raise options.error(
            "the query replaces rows, and a Kafka record has one key", remedy="declare a PRIMARY KEY of one column"
        )
    key = options.take("key.fields") or (found[0] if len(found) == 1 else None)
    return table.stream.to_kafka(
        options.need("properties.bootstrap.servers", "localhost:9092"),
        options.need("topic", "totals"),
        key=key,
        delivery=options.choice("sink.delivery-guarantee", GUARANTEES, "at-least-once"),
        options={name: value for name in SETTINGS if (value := options.take(f"{PROPERTIES}{name}")) is not None},
        name=table.name,
    )


SQL_SOURCE: Final = SqlSource(read=_read, metadata=KAFKA_METADATA, as_maps={"headers": HEADERS_AS_MAP})
SQL_SINK: Final = SqlSink(write=_write, keys=True, updates=True)
