"""Rows of a batch for Redis: each as its key and its values, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.records.columns import PREFIX, hidden, visible
from rs_assets.records.poison import EXACT
from rs_assets.records.schema import quoted

KEY, GONE = f"{PREFIX}key", f"{PREFIX}gone"
# Others wait while the server writes a chunk: these are some milliseconds.
CHUNK_ROWS, CHUNK_VALUES, CHUNK_BYTES = 500, 4_000, 250_000


def written(node: RedisSink, names: Sequence[str]) -> list[str]:
    """The fields that are written, of the visible ones of the rows."""
    if node.value is not None:
        return [node.value]
    return [name for name in visible([*names]) if name != node.deletes]


def fields_of(node: RedisSink, names: Sequence[str]) -> tuple[str, ...]:
    """The names of the values of a row: a string has one."""
    return ("value",) if node.structure == "string" else tuple(written(node, names))


def as_values(batch: DataFrame, node: RedisSink) -> DataFrame:
    """The rows as KEY, GONE and their values as text or bytes; their hidden columns stay."""
    schema, names = batch.schema, written(node, batch.columns)
    if node.structure == "string" and node.value is None:
        one = F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), dict(EXACT))
        values = [one.alias("value")]
    else:
        made = [_text(F.col(quoted(name)), schema[name].dataType) for name in names]
        values = [each.alias(name) for each, name in zip(made, fields_of(node, batch.columns), strict=True)]
    gone = F.coalesce(F.col(quoted(node.deletes)), F.lit(False)) if node.deletes is not None else F.lit(False)  # noqa: FBT003
    return batch.select(_key(node, schema).alias(KEY), gone.alias(GONE), *values, *hidden(batch.columns))


def _key(node: RedisSink, schema: StructType) -> Column:
    """The key of a row, null if one of its parts is; parts of a key of several fields have no colon of their own."""
    parts = [_text(F.col(quoted(name)), schema[name].dataType) for name in node.keys]
    if len(parts) > 1:
        parts = [F.replace(F.replace(part, F.lit("%"), F.lit("%25")), F.lit(":"), F.lit("%3A")) for part in parts]
    joined = [each for part in parts for each in (F.lit(":"), part)][1:]
    return F.concat(F.lit(node.prefix), *joined)


def _text(value: Column, kind: DataType) -> Column:
    """A value as text; bytes stay bytes."""
    if isinstance(kind, BinaryType):
        return value
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.to_json(value, dict(EXACT))
    if isinstance(kind, TimestampType):
        return F.date_format(value, EXACT["timestampFormat"])
    if isinstance(kind, TimestampNTZType):
        return F.date_format(value, EXACT["timestampNTZFormat"])
    return value.cast("string")


def chunks(rows: pa.Table, fields: Sequence[str]) -> Iterator[bytes]:
    """The rows as texts of JSON for the script, of some rows each."""
    size = max(1, rows.nbytes // max(1, rows.num_rows))
    count = max(1, min(CHUNK_ROWS, CHUNK_VALUES // (len(fields) + 1), CHUNK_BYTES // size))
    for start in range(0, rows.num_rows, count):
        part = rows.slice(start, count)
        gone = part.filter(part[GONE])[KEY].to_pylist()
        kept = part.filter(pc.invert(part[GONE])) if gone else part
        columns = [kept[KEY].to_pylist(), *(_values(kept[name]) for name in fields)]
        yield orjson.dumps({"gone": gone, "rows": [*zip(*columns, strict=True)]})


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if value is None else [value.hex()] for value in values]
    return values
