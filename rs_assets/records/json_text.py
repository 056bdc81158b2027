"""Why a text of JSON is refused that Spark's parser takes: a field would not have the value that is in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from rs_assets.records.calendar import Fault, calendar_reason, fault_reason, may_have

# An escape of half a surrogate pair, of which Spark makes a question mark, in a text without escaped backslashes.
HALF: Final = (
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
# A text that may be a number with a comma, which Spark leaves out: 15 for "1,5".
COMMA: Final = r'"[-+.0-9]*,[-+.,0-9eE]*"'
TOO_LARGE: Final = Fault(
    "larger than its type holds",
    (FloatType, DoubleType),
    lambda value, _: (value == F.lit(float("inf"))) | (value == F.lit(float("-inf"))),
)
WITH_COMMA: Final = Fault("a comma in a number", (DecimalType,), lambda value, _: value.contains(","))


def json_reason(text: Column, schema: StructType, parsed: Column, options: Mapping[str, str]) -> Column:
    """Why the text of a record cannot be used that Spark `parsed` with these options; null for a good one.

    JsonFaults.scala has the same rules.
    """
    # The name of the value that Spark reads as infinite.
    infinite = F.lower(text).contains("inf")
    commas = F.from_json(text, _with_texts(schema), dict(options))
    return F.coalesce(
        calendar_reason(schema.fields, parsed.__getitem__),
        F.when(_has_half(text), F.lit("half of a surrogate pair")),
        *_reason_if(~infinite, schema, parsed, TOO_LARGE),
        *_reason_if(text.rlike(COMMA), schema, commas, WITH_COMMA),
    )


def _has_half(text: Column) -> Column:
    return text.contains("\\u") & F.replace(text, F.lit("\\\\"), F.lit("x")).rlike(HALF)


def _reason_if(condition: Column, schema: StructType, values: Column, fault: Fault) -> tuple[Column, ...]:
    """The reason for a fault that counts under a condition, if fields may have it."""
    if not may_have(schema, fault):
        return ()
    return (F.when(condition, fault_reason(schema.fields, values.__getitem__, [fault])),)


def _with_texts(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _with_text(field.dataType)) for field in schema.fields])


def _with_text(kind: DataType) -> DataType:
    """A type with texts for decimals, so that they are as they were written."""
    if isinstance(kind, DecimalType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_with_text(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_with_text(kind.keyType), _with_text(kind.valueType))
    return _with_texts(kind) if isinstance(kind, StructType) else kind
