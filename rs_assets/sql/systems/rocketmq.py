"""RocketMQ topics as tables of SQL. The names of options are those of RocketMQ's own connectors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.rocketmq.nodes import ROCKETMQ_METADATA
from rs_assets.sql.systems.form import SqlSink, SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

GUARANTEES: Final = {"at-least-once": "at_least_once", "exactly-once": "exactly_once"}
STARTS: Final = {"earliest-offset": "earliest", "latest-offset": "latest", "group-offsets": "committed"}


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    start: Any = options.choice("scan.startup.mode", STARTS, "earliest-offset")
    millis = options.number("startTimeMs")
    options.choice("format", {"json": "json"}, "json")
    stream = table.begin.from_rocketmq(
        _server(options),
        options.need("topic", "orders"),
        group=options.take("consumerGroup"),
        tags=options.take("tag") or "*",
        sql=options.take("sql"),
        schema=table.schema,
        starting_offsets=start if millis is None else datetime.fromtimestamp(millis / 1000, tz=UTC),
        metadata=table.metadata,
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 1_000_000,
        name=table.name,
    )
    return table.rows(stream)


def _write(table: SinkTable) -> DataStream:
    options = table.options
    options.choice("format", {"json": "json"}, "json")
    return table.stream.to_rocketmq(
        _server(options),
        options.need("topic", "totals"),
        key=options.take("key.fields"),
        tags=options.take("tag.field"),
        delivery=options.choice("sink.delivery-guarantee", GUARANTEES, "at-least-once"),
        name=table.name,
    )


def _server(options: Options) -> str:
    return options.need("nameServerAddress", "localhost:9876")


SINK: Final = SqlSink(write=_write)
SOURCE: Final = SqlSource(read=_read, metadata=ROCKETMQ_METADATA)
