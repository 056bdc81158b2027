"""Fields of the keys of records: a key is the text of one field, or a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, DataType, StructType

from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.json_fields import json_fields
from rs_assets.records.calendar import calendar_reason, fault_reason
from rs_assets.records.columns import CORRUPT, PREFIX
from rs_assets.records.json_text import TOO_LARGE, json_reason
from rs_assets.records.schema import quoted

PARSED_KEY = f"{PREFIX}parsed_key"
NO_TEXT = "invalid UTF-8 in the key"


@dataclass(frozen=True, slots=True)
class KeyFields:
    """The fields `ddl` of the column `key`, by the format `form`."""

    ddl: str
    form: str

    def decoded(self, frame: DataFrame) -> tuple[DataFrame, list[Column], Column]:
        """`frame` with the decoded key, its fields as `kafka_key_NAME`, and why a key cannot be used; null can be."""
        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)  # noqa: S101  fields with types, which the node has checked
        frame, refused = FORMATS[self.form](schema, frame)
        fields = [F.col(f"{PARSED_KEY}.{quoted(name)}").alias(f"kafka_key_{name}") for name in schema.names]
        return frame, fields, F.when(F.col("key").isNotNull(), refused)


def utf8_reason() -> Column:
    """Why a key cannot become a text; null if it can, or there is none."""
    return F.when(~F.is_valid_utf8(F.col("key").cast("string")), F.lit(NO_TEXT))


def _of_text(schema: StructType, frame: DataFrame) -> tuple[DataFrame, Column]:
    (field,) = schema.fields
    text = F.col("key").cast("string")
    frame = frame.withColumn(PARSED_KEY, F.struct(_value(text, field.dataType).alias(field.name)))
    value = F.col(f"{PARSED_KEY}.{quoted(field.name)}")
    if isinstance(field.dataType, BinaryType):
        return frame, F.lit(None).cast("string")
    large = F.when(~F.lower(text).contains("inf"), fault_reason([field], lambda _: value, [TOO_LARGE]))
    unread = F.when(value.isNull(), F.lit(f"it is not a {field.dataType.simpleString()}"))
    return frame, F.coalesce(utf8_reason(), _in_key(unread, large, calendar_reason([field], lambda _: value)))


def _value(text: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.col("key")
    if isinstance(kind, BooleanType):
        # Spark also takes yes, t, 1 and others.
        return F.when(F.lower(F.trim(text)).isin("true", "false"), text.try_cast(kind))
    return text.try_cast(kind)


def _of_json(schema: StructType, frame: DataFrame) -> tuple[DataFrame, Column]:
    form = LineFormat("json", schema=schema)
    text = F.col("key").cast("string")
    options = form.reader_options
    frame = frame.withColumn(PARSED_KEY, json_fields(frame, text, form.reader_schema, options))
    parsed = F.col(PARSED_KEY)
    malformed = F.when(parsed.isNull() | parsed[CORRUPT].isNotNull(), F.lit("malformed JSON"))
    return frame, F.coalesce(utf8_reason(), _in_key(malformed, json_reason(text, schema, parsed, options)))


def _in_key(*reasons: Column) -> Column:
    return F.concat(F.lit("in the key: "), F.coalesce(*reasons))


FORMATS: Mapping[str, Callable[[StructType, DataFrame], tuple[DataFrame, Column]]] = MappingProxyType(
    {"text": _of_text, "json": _of_json}
)
