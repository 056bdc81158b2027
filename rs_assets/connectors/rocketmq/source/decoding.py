"""Messages as rows: the fields of the body, the metadata, and the reason why a message cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.json_fields import json_fields
from rs_assets.records.columns import LINE, OFFSET, RAW, RAW_LIMIT_BYTES, REASON, SPLIT
from rs_assets.records.json_text import json_reason
from rs_assets.records.schema import quoted

PARSED: Final = "_rs_parsed"


def decoded(
    rows: DataFrame, topic: str, form: str, schema: StructType | None, metadata: tuple[str, ...], *, addressed: bool
) -> DataFrame:
    """Fields, `rocketmq_...` fields of `metadata` and REASON of the messages from Spark's source, and their ADDRESS."""
    rows, fields, reason = FORMATS[form](rows, schema)
    # In the format "raw" all of them are fields.
    own = _metadata(topic)
    fields = [own[name].alias(name) if name in own else F.col(name) for name in RAW_FIELDS] if form == "raw" else fields
    extra = [own[name].alias(f"rocketmq_{name}") for name in metadata]
    address = (
        F.col("split").alias(SPLIT),
        F.col("line").alias(LINE),
        F.col("offset").alias(OFFSET),
        F.make_valid_utf8(F.left(F.col("value"), F.lit(RAW_LIMIT_BYTES)).cast("string")).alias(RAW),
    )
    return rows.select(*fields, *extra, reason.alias(REASON), *(address if addressed else ()))


def _metadata(topic: str) -> Mapping[str, Column]:
    broker = F.substring_index("split", "/", 1)
    return {
        "key": F.col("key"),
        "tags": F.col("tags"),
        "topic": F.lit(topic),
        "broker": broker,
        "queue": F.substring_index("split", "/", -1).cast("int"),
        "offset": F.col("offset"),
        "timestamp": F.col("timestamp"),
        "properties": F.col("properties"),
    }


Decoded = tuple[DataFrame, list[Column], Column]


def _json(rows: DataFrame, schema: StructType | None) -> Decoded:
    assert schema is not None  # given or inferred before
    form = LineFormat("json", schema=schema)
    text = F.col("value").cast("string")
    # A column of its own, so that the text is parsed once and not once a field.
    rows = rows.withColumn(PARSED, json_fields(rows, text, form.reader_schema, form.reader_options))
    malformed = F.col(PARSED).isNull() | F.col(f"{PARSED}._rs_corrupt").isNotNull()
    refused = F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8")).when(malformed, F.lit("malformed JSON"))
    reason = F.coalesce(refused, json_reason(text, schema, F.col(PARSED), form.reader_options))
    return rows, [F.col(f"{PARSED}.{quoted(field.name)}").alias(field.name) for field in schema.fields], reason


def _text(rows: DataFrame, _schema: StructType | None) -> Decoded:
    text = F.col("value").cast("string")
    return rows, [text.alias("value")], F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8"))


def _raw(rows: DataFrame, _schema: StructType | None) -> Decoded:
    return rows, [], F.lit(None).cast("string")


# The fields of the format "raw", in their order.
RAW_FIELDS: Final = ("value", "key", "tags", "properties", "topic", "broker", "queue", "offset", "timestamp")
FORMATS: Final[Mapping[str, Callable[[DataFrame, StructType | None], Decoded]]] = MappingProxyType(
    {"json": _json, "text": _text, "raw": _raw}
)
