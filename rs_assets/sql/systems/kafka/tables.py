"""Kafka topics as tables of SQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.kafka.nodes import KAFKA_METADATA
from rs_assets.connectors.kafka.sink.settings import SETTINGS
from rs_assets.connectors.kafka.source.settings import SETTINGS as CONSUMER
from rs_assets.sql.systems.form import SqlSink, SqlSource
from rs_assets.sql.systems.kafka.keys import key_columns, key_format, named_keys
from rs_assets.sql.systems.kafka.options import (
    OF_FORMATS,
    cluster_of,
    format_of,
    message_of,
    properties,
    registry_of,
)

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.read.statements import Word
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

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
ISOLATION: Final = {name: name for name in ("read_committed", "read_uncommitted")}
OF_SOURCES: Final = (
    "properties.group.id",
    "topic-pattern",
    "bad-records",
    "max-rows-per-batch",
    "scan.startup.mode",
    "scan.startup.timestamp-millis",
)


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    changes = _check_key(table)
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
    form, keyed = format_of(options), key_columns(table, table.keys if changes else named_keys(options))
    message: dict[str, Any] = message_of(options, form)
    stream = table.begin.from_kafka(
        cluster_of(options),
        topics=tuple(filter(None, (options.take("topic") or "").split(";"))),
        pattern=options.take("topic-pattern"),
        group=options.take("properties.group.id"),
        format=form,
        schema=keyed.value_schema(table),
        registry=registry_of(options, form, needed=form == "avro"),
        schema_id=options.number("protobuf.schema-id") if form == "protobuf" else None,
        **message,
        starting_offsets=start,
        metadata=tuple(dict.fromkeys([*table.metadata, *(("tombstone",) if changes else ())])),
        key_schema=keyed.schema(table),
        key_format=keyed.form,
        bad_records=table.bad_records,
        tombstones="keep" if changes else "skip",
        isolation=options.choice("properties.isolation.level", ISOLATION, "read_committed"),
        max_rows_per_batch=options.number("max-rows-per-batch") or 1_000_000,
        options=properties(options, CONSUMER),
        name=table.name,
    )
    rows = keyed.rows(table, stream, ("tombstone",) if changes else ())
    return rows.to_table(*table.keys, deletes="kafka_tombstone", name=f"{table.name}_table") if changes else rows


def _check_key(table: SourceTable) -> bool:
    """Whether the topic is a changelog; SqlError unless exactly changelogs have a PRIMARY KEY."""
    options = table.options
    changes = _changelog(options)
    if changes is not None and not table.keys:
        raise options.error(
            "'upsert-kafka' reads the newest row of each key, and there is no key", at=changes.start,
            remedy="declare a PRIMARY KEY, PRIMARY KEY (id) NOT ENFORCED, or read each record: 'connector' = 'kafka'",
        )  # fmt: skip
    if changes is None and table.keys:
        raise options.error(
            f"the source {options.table.name.text!r} cannot have a PRIMARY KEY: each record of a topic is a row",
            at=options.table.key[0].start,
            remedy="read the newest row of each key, 'connector' = 'upsert-kafka', or remove the PRIMARY KEY",
        )
    return changes is not None


def _changelog(options: Options) -> Word | None:
    """The option that names 'upsert-kafka'; None for another connector."""
    return next((value for _, value in options.table.options.values() if value.text == CHANGES), None)


def _write(table: SinkTable) -> DataStream:
    options = table.options
    reading = next((pair[0] for key, pair in options.found.items() if key in OF_SOURCES), None)
    if reading is not None:
        remedy = "remove it, or declare another table to read from"
        raise options.error(f"{reading.text!r} is an option of sources", at=reading.start, remedy=remedy)
    found = table.keys()
    named = _changelog(options)
    if named is not None and not found:
        raise options.error(
            "'upsert-kafka' writes rows by a key, and there is none", at=named.start,
            remedy="declare a PRIMARY KEY: PRIMARY KEY (id) NOT ENFORCED",
        )  # fmt: skip
    if table.replace and named is None and len(found) != 1:
        raise options.error("the query replaces rows by several columns", remedy="'connector' = 'upsert-kafka'")
    changes = table.changes
    if table.deletes is not None or (named is None and changes is not None):
        remedy = "filter before the ranking" if changes is None else "'connector' = 'upsert-kafka'"
        raise options.error("the query retracts rows, and each row is a record of the topic", remedy=remedy)
    as_json = named is not None and key_format(options, found) == "json"
    return _sent(table, changes, found, as_json=as_json)


def _sent(table: SinkTable, changes: Table | None, keys: tuple[str, ...], *, as_json: bool) -> DataStream:
    """The sink of rows, or of the `changes` of a table; the key of a record is a JSON object or the text of one."""
    options = table.options
    how: dict[str, Any] = {
        "bootstrap_servers": cluster_of(options),
        "topic": options.need("topic", "totals"),
        "format": (form := format_of(options)),
        "delivery": options.choice("sink.delivery-guarantee", GUARANTEES, "at-least-once"),
        "options": properties(options, SETTINGS),
        "name": table.name,
    }
    if form != "json":
        begin = OF_FORMATS[form]
        how |= {"registry": registry_of(options, form), "subject": options.take(f"{begin}subject")}
        how |= {"schema": options.take(f"{begin}schema")} if form == "avro" else message_of(options, form)
    if changes is not None:
        _refuse_metadata(table)
        made = changes.to_kafka(**how, key_format="json" if as_json else "text")
        return replace(table.rows, step=made.step)
    if table.metadata:
        how |= {**table.metadata, "value": [column.name.text for column in table.table.declared]}
    if as_json:
        return table.stream.to_kafka(**how, keys=keys)
    return table.stream.to_kafka(**how, key=options.take("key.fields") or (keys[0] if len(keys) == 1 else None))


def _refuse_metadata(table: SinkTable) -> None:
    """SqlError for METADATA columns of rows that come and go."""
    written = next((c for c in table.table.columns if c.name.text in table.metadata.values()), None)
    if written is not None:
        raise table.options.error(
            f"the query retracts rows, so the metadata {written.name.text!r} is not written",
            at=written.name.start,
            remedy="remove the column, or declare it as VIRTUAL",
        )


METADATA: Final = {name: kind for name, kind in KAFKA_METADATA.items() if name != "tombstone"}
SOURCE: Final = SqlSource(read=_read, metadata=METADATA, as_maps={"headers": HEADERS_AS_MAP})
# The metadata that a record is sent with; each key is also the name of the argument.
WRITTEN: Final = frozenset(("headers", "partition", "timestamp"))
SINK: Final = SqlSink(write=_write, keys=True, updates=True, metadata=WRITTEN)
