"""Redis as tables of SQL."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, get_args

from rs_assets.connectors.redis.nodes import REDIS_METADATA, RedisFormat, RedisStart, RedisStructure
from rs_assets.sql.systems.form import SqlSink, SqlSource
from rs_assets.sql.systems.secrets import secret_of

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

STRUCTURES: Final = {name: name for name in get_args(RedisStructure)}
FORMATS: Final = {name: name for name in get_args(RedisFormat) if name != "raw"}
STARTS: Final = {f"{name}-id": name for name in get_args(RedisStart)}


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    form: Any = options.choice("format", FORMATS, "fields")
    start: Any = options.choice("scan.startup.mode", STARTS, "earliest-id")
    stream = table.begin.from_redis(
        secret_of(options.need("url", "$REDIS_URL")),
        [name.strip() for name in options.need("stream", "clicks").split(",")],
        format=form,
        value=options.take("value.field") or "value",
        schema=table.schema,
        starting_ids=start,
        metadata=table.metadata,
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 100_000,
        name=table.name,
    )
    return table.rows(stream)


def _write(table: SinkTable) -> DataStream:
    options, keys = table.options, table.keys()
    structure: Any = options.choice("structure", STRUCTURES, "hash")
    if structure == "stream" and (table.replace or table.marks):
        raise options.error(
            "the query replaces rows, and a stream keeps them", remedy="'structure' = 'hash', or group by a window"
        )
    if structure != "stream" and not keys:
        raise options.error("a hash or a string needs a key", remedy="declare PRIMARY KEY (page) NOT ENFORCED")
    seconds = options.number("ttl-seconds")
    return table.stream.to_redis(
        secret_of(options.need("url", "$REDIS_URL")),
        structure=structure,
        key=keys,
        prefix=options.need("prefix", "page:"),
        value=options.take("value.field"),
        deletes=table.marks,
        ttl=timedelta(seconds=seconds) if seconds is not None else None,
        name=table.name,
    )


SINK: Final = SqlSink(write=_write, keys=True, updates=True)
SOURCE: Final = SqlSource(read=_read, metadata=REDIS_METADATA)
