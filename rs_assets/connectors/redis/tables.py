"""Redis as tables of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from rs_assets.common.secrets import FromEnvironment
from rs_assets.connectors.connector import SqlSource
from rs_assets.connectors.redis.nodes import REDIS_METADATA, RedisFormat, RedisStart

if TYPE_CHECKING:
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.sql.read.options import Options
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

FORMATS: Final = {name: name for name in get_args(RedisFormat) if name != "raw"}
STARTS: Final = {f"{name}-id": name for name in get_args(RedisStart)}


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    form: Any = options.choice("format", FORMATS, "fields")
    start: Any = options.choice("scan.startup.mode", STARTS, "earliest-id")
    stream = table.begin.from_redis(
        _url(options),
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


def _url(options: Options) -> str | FromEnvironment:
    """The URL, or the environment variable that a `$NAME` names."""
    text = options.need("url", "$REDIS_URL")
    return FromEnvironment(text[1:]) if text.startswith("$") else text


SQL_SOURCE: Final = SqlSource(read=_read, metadata=REDIS_METADATA)
