"""Entries as rows: the fields, the metadata, and the reason why an entry cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from rs_assets.connectors.files.parse import LineFormat, no_value, parse_lines, without_address
from rs_assets.connectors.json_fields import json_fields
from rs_assets.connectors.redis.source.plan import ENTRY
from rs_assets.connectors.redis.source.streams import SEQ_BITS
from rs_assets.records.calendar import calendar_reason
from rs_assets.records.columns import CORRUPT, LINE, OFFSET, PREFIX, RAW, RAW_LIMIT_BYTES, REASON, SPLIT
from rs_assets.records.json_text import json_reason
from rs_assets.records.schema import quoted

NESTED: Final = (ArrayType, MapType, StructType)
NESTED_FORM: Final = LineFormat("json")
CORRUPTED: Final = StructField(CORRUPT, StringType())


def decoded(
    rows: DataFrame, form: str, schema: StructType | None, metadata: tuple[str, ...], *, addressed: bool
) -> DataFrame:
    """Fields, `redis_...` fields of `metadata` and REASON of the entries from Spark's source, and their ADDRESS."""
    read = FORMATS[form](rows, schema)
    own = _metadata()
    names = [name for name in read.columns if not name.startswith(PREFIX)]
    extra = [own[name].alias(f"redis_{name}") for name in metadata]
    hidden = [F.col(name) for name in (REASON, SPLIT, LINE, OFFSET, RAW)]
    made = read.select(*(F.col(quoted(name)) for name in names), *extra, *hidden)
    return made if addressed else without_address(made)


def _metadata() -> Mapping[str, Column]:
    number = F.col(LINE)
    ms = F.shiftright(number, SEQ_BITS)
    return {
        "id": F.concat_ws("-", ms, number.bitwiseAND(F.lit((1 << SEQ_BITS) - 1))),
        "stream": F.col(SPLIT),
        "timestamp": F.timestamp_millis(ms),
    }


def _json(rows: DataFrame, schema: StructType | None) -> DataFrame:
    return parse_lines(rows, LineFormat("json", schema=schema), addressed=True)


def _raw(rows: DataFrame, _schema: StructType | None) -> DataFrame:
    fields = [_metadata()[name].alias(name) for name in ("id", "stream", "timestamp")]
    placed = rows.select("*", *_address())
    return placed.select(*fields, F.col(ENTRY).alias("fields"), F.lit(None).cast("string").alias(REASON), *ADDRESSED)


def _fields(rows: DataFrame, schema: StructType | None) -> DataFrame:
    assert schema is not None  # given or inferred before
    cells = {field.name: F.try_element_at(F.col(ENTRY), F.lit(field.name)) for field in schema.fields}
    values = {field.name: _value(rows, cells[field.name], field) for field in schema.fields}
    reasons = [_reason(rows, field, cells[field.name], values[field.name]) for field in schema.fields]
    reason = F.coalesce(*reasons, calendar_reason(schema.fields, values.__getitem__))
    return rows.select(*(value.alias(name) for name, value in values.items()), reason.alias(REASON), *_address())


def _value(rows: DataFrame, cell: Column, field: StructField) -> Column:
    """The text of a field as a value of its type; null if it is none."""
    text = cell.cast("string")
    if isinstance(field.dataType, BinaryType | StringType):
        return cell if isinstance(field.dataType, BinaryType) else text
    if isinstance(field.dataType, NESTED):
        return _parsed(rows, text, field)[field.name]
    return text.try_cast(field.dataType)


def _object(text: Column, field: StructField) -> Column:
    """The text of a nested value as that of an object with one field, of which Spark says whether it is bad."""
    return F.concat(F.lit(f"{{{json.dumps(field.name)}:"), text, F.lit("}"))


def _parsed(rows: DataFrame, text: Column, field: StructField) -> Column:
    return json_fields(rows, _object(text, field), StructType([field, CORRUPTED]), NESTED_FORM.reader_options)


def _reason(rows: DataFrame, field: StructField, cell: Column, value: Column) -> Column:
    text = cell.cast("string")
    if isinstance(field.dataType, BinaryType):
        return F.lit(None).cast("string")
    invalid = F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8"))
    if isinstance(field.dataType, NESTED):
        return F.coalesce(invalid, F.when(F.length(text) > 0, _nested_reason(rows, text, field)))
    return F.coalesce(invalid, no_value(field, F.make_valid_utf8(text), value))


def _nested_reason(rows: DataFrame, text: Column, field: StructField) -> Column:
    parsed = _parsed(rows, text, field)
    # What is not one value of JSON alone may be one within an object.
    bad = parsed[CORRUPT].isNotNull() | F.try_parse_json(text).isNull()
    said = F.lit(f"{field.name}: not JSON of type {field.dataType.simpleString()}")
    one = json_reason(_object(text, field), StructType([field]), parsed, NESTED_FORM.reader_options)
    return F.coalesce(F.when(bad, said), one)


def _address() -> tuple[Column, ...]:
    texts = F.transform_values(ENTRY, lambda _, value: F.make_valid_utf8(value.cast("string")))
    raw = F.left(F.to_json(texts), F.lit(RAW_LIMIT_BYTES))
    return (F.col("split").alias(SPLIT), F.col("line").alias(LINE), F.col("offset").alias(OFFSET), raw.alias(RAW))


ADDRESSED: Final = (SPLIT, LINE, OFFSET, RAW)
FORMATS: Final[Mapping[str, Callable[[DataFrame, StructType | None], DataFrame]]] = MappingProxyType(
    {"fields": _fields, "json": _json, "raw": _raw}
)
