"""Why a text of JSON is refused that Spark's parser takes: a field would not have the value that is in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rs_assets.records.calendar import Fault, calendar_reason, fault_reason
from rs_assets.records.contained import contains

# An escape of half a surrogate pair, of which Spark makes a question mark, in a text without escaped backslashes.
HALF: Final = (
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
# A text that may be a number with a comma, which Spark leaves out: 15 for "1,5".
COMMA: Final = r'"[-+.0-9]*,[-+.,0-9eE]*"'
# A number of so many digits that Spark, which multiplies seconds by a million, may wrap around to any time.
SECONDS: Final = r"(?<![0-9.])[0-9]{13}"
# A text that begins as a time of day does: Spark takes it for one of today, so another day gives another time.
CLOCK: Final = r"[\s\x00-\x1f]*(?:T[0-9]|[0-9]{1,2}:)"
# A number from 128 to 255, of which Spark makes a negative tinyint.
UNSIGNED: Final = r"(?<![0-9])(?:1(?:2[89]|[3-9][0-9])|2(?:[0-4][0-9]|5[0-5]))(?![0-9])"
TOO_LARGE: Final = Fault(
    "larger than its type holds",
    (FloatType, DoubleType),
    lambda value, _: (value == F.lit(float("inf"))) | (value == F.lit(float("-inf"))),
)
TOO_LARGE_FOR_BYTE: Final = Fault(TOO_LARGE.what, (ByteType,), lambda value, _: value > F.lit(127))
TOO_LATE: Final = Fault(
    "not in the years 1 to 9999 of UTC", (TimestampType,), lambda value, _: value.rlike("^-?[0-9]{13,}$")
)
WITHOUT_DATE: Final = Fault("a time of day without a date", (TimestampType,), lambda value, _: value.rlike(f"^{CLOCK}"))
WITH_COMMA: Final = Fault("a comma in a number", (DecimalType,), lambda value, _: value.contains(","))


def json_reason(text: Column, schema: StructType, parsed: Column, options: Mapping[str, str]) -> Column:
    """Why the text of a record cannot be used that Spark `parsed` with these options; null for a good one.

    JsonFaults.scala has the same rules.
    """
    # The name of the value that Spark reads as infinite.
    infinite = F.lower(text).contains("inf")
    written = F.from_json(text, _as_written(schema), dict(options))
    # A format of one's own says what a text without a date means.
    undated = () if "timestampFormat" in options else _reason_if(text.rlike(f'"{CLOCK}'), schema, written, WITHOUT_DATE)
    return F.coalesce(
        calendar_reason(schema.fields, parsed.__getitem__),
        F.when(_has_half(text), F.lit("half of a surrogate pair")),
        *_reason_if(~infinite, schema, parsed, TOO_LARGE),
        *_reason_if(text.rlike(UNSIGNED), schema, written, TOO_LARGE_FOR_BYTE),
        *_reason_if(text.rlike(COMMA), schema, written, WITH_COMMA),
        *_reason_if(text.rlike(SECONDS), schema, written, TOO_LATE),
        *undated,
    )


def misfit_reason(text: Column, schema: StructType) -> Column:
    """Which field of a text that Spark did not parse has a value of another type; null if it is not a JSON object."""
    valued = F.from_json(text, "map<string,string>")
    reasons = [_misfit(field, F.try_element_at(valued, F.lit(field.name))) for field in schema.fields]
    other = F.when(valued.isNotNull(), F.lit("a value is not of its field's type"))
    return F.when(F.try_parse_json(text).isNotNull(), F.coalesce(*reasons, other))


def _misfit(field: StructField, written: Column) -> Column:
    """Why the text of a value is not one of its field; null if it may be one."""
    if not isinstance(field.dataType, NumericType | BooleanType | DateType | TimestampType | TimestampNTZType):
        return F.lit(None).cast("string")
    wrong = written.isNotNull() & written.try_cast(field.dataType).isNull()
    if isinstance(field.dataType, TimestampType | TimestampNTZType):
        # A number is a time there.
        wrong &= ~written.rlike("^[-+.0-9eE]+$")
    return F.when(wrong, misfit_text(field, written))


def misfit_text(field: StructField, written: Column) -> Column:
    """The reason that names the field, the begin of the text that is not one of its values, and its type."""
    kind = field.dataType.simpleString()
    return F.concat(F.lit(f"{field.name}: '"), F.left(written, F.lit(100)), F.lit(f"' is not of type {kind}"))


def _has_half(text: Column) -> Column:
    return text.contains("\\u") & F.replace(text, F.lit("\\\\"), F.lit("x")).rlike(HALF)


def _reason_if(condition: Column, schema: StructType, values: Column, fault: Fault) -> tuple[Column, ...]:
    """The reason for a fault that counts under a condition, if fields may have it."""
    if not contains(schema, fault.kinds):
        return ()
    return (F.when(condition, fault_reason(schema.fields, values.__getitem__, [fault])),)


def _as_written(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _wider(field.dataType)) for field in schema.fields])


def _wider(kind: DataType) -> DataType:
    """A type with texts for decimals and times, and smallint for tinyint: they have the values that Spark changes."""
    if isinstance(kind, DecimalType | TimestampType):
        return StringType()
    if isinstance(kind, ByteType):
        return ShortType()
    if isinstance(kind, ArrayType):
        return ArrayType(_wider(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_wider(kind.keyType), _wider(kind.valueType))
    return _as_written(kind) if isinstance(kind, StructType) else kind
