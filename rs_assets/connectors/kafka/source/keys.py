"""Fields of the keys of records: a key is the text of one field, or a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from rs_assets.connectors.files.parse import LineFormat, no_value, parsed_json
from rs_assets.records.columns import PREFIX
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
        assert isinstance(schema, StructType)  # fields with types, which the node has checked
        frame, refused = FORMATS[self.form](schema, frame)
        fields = [F.col(f"{PARSED_KEY}.{quoted(name)}").alias(f"kafka_key_{name}") for name in schema.names]
        return frame, fields, F.when(F.col("key").isNotNull(), refused)


def utf8_reason() -> Column:
    """Why a key cannot become a text; null if it can, or there is none."""
    return F.when(~F.is_valid_utf8(F.col("key").cast("string")), F.lit(NO_TEXT))


def _of_text(schema: StructType, frame: DataFrame) -> tuple[DataFrame, Column]:
    (field,) = schema.fields
    text = F.col("key").cast("string")
    if isinstance(field.dataType, BinaryType):
        return frame.withColumn(PARSED_KEY, F.struct(F.col("key").alias(field.name))), F.lit(None).cast("string")
    frame = frame.withColumn(PARSED_KEY, F.struct(text.try_cast(field.dataType).alias(field.name)))
    value = F.col(f"{PARSED_KEY}.{quoted(field.name)}")
    return frame, F.coalesce(utf8_reason(), _in_key(no_value(field, text, value)))


def _of_json(schema: StructType, frame: DataFrame) -> tuple[DataFrame, Column]:
    text = F.col("key").cast("string")
    frame, refused = parsed_json(frame, text, schema, LineFormat("json").reader_options, into=PARSED_KEY)
    return frame, F.coalesce(utf8_reason(), _in_key(refused))


def _in_key(reason: Column) -> Column:
    return F.concat(F.lit("in the key: "), reason)


FORMATS: Mapping[str, Callable[[StructType, DataFrame], tuple[DataFrame, Column]]] = MappingProxyType(
    {"text": _of_text, "json": _of_json}
)
