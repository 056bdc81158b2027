"""Parses lines into fields: JSON, CSV, plain text and text with a pattern, with a reason for each bad line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.connectors.files.lines.records import FAULT, RECORD
from rs_assets.connectors.json_fields import json_fields
from rs_assets.errors import ConfigurationError
from rs_assets.records.calendar import calendar_reason, fault_reason
from rs_assets.records.columns import ADDRESS, CORRUPT, LINE, OFFSET, PREFIX, RAW, RAW_LIMIT_BYTES, REASON, SPLIT
from rs_assets.records.grok.expand import is_grok, with_named_groups
from rs_assets.records.json_text import TOO_LARGE, WITHOUT_DATE, json_reason, misfit_reason, misfit_text
from rs_assets.records.schema import quoted

# Separators between the groups of a matched pattern; lines that contain one are refused, so they cannot be forged.
GROUP, MATCHED = "\x01", "\x02"
# The line with those separators, and the text of its groups.
MATCH, PARTS = f"{PREFIX}match", f"{PREFIX}parts"
# What a message may have after its line. It is read with it: `$` would leave it, and the last field would have it.
LINE_END: Final = r"(?:\r\n|[\n\r\u0085\u2028\u2029])?\z"
UNBALANCED = "malformed CSV: a quote is not closed in its line"
# Spark's parser of CSV drops it within quotes.
NUL = "\0"
WITH_NUL = "malformed CSV: a NUL in a line with quotes"
# Spark's parser of CSV leaves commas out of decimals (15 for 1,5), and makes too large a number infinite.
AS_TEXT = (DecimalType, FloatType, DoubleType)
# The characters of a blank line, the same for every reader.
WHITE_SPACE = " \t\r\n\v\f"


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line is read. `schema` is None for plain text; `pattern` belongs to format text."""

    format: str
    schema: StructType | None = None
    pattern: str | None = None
    time_format: str | None = None
    header: bool = True
    delimiter: str = ","
    max_line_bytes: int = MAX_LINE_BYTES

    def as_text(self, kind: DataType) -> bool:
        """Whether a value of CSV is read as a text, and becomes one of its type when that is checked."""
        # A format says what a text without a date means.
        return isinstance(kind, AS_TEXT) or (isinstance(kind, TimestampType) and not self.time_format)

    @property
    def reader_options(self) -> dict[str, str]:
        """Options of Spark's own parser that make it keep rejected text."""
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        if self.format == "csv":
            # As in RFC 4180 and all common CSV writers: a quote within quotes is doubled.
            options |= {"escape": '"', "sep": self.delimiter}
        if self.time_format:
            options["timestampFormat"] = self.time_format
        return options

    @property
    def reader_schema(self) -> StructType:
        """The schema with the column for rejected text, and with texts for what is checked after Spark has read it."""
        fields = (self.schema or StructType()).fields
        if self.format == "csv":
            fields = [StructField(f.name, StringType()) if self.as_text(f.dataType) else f for f in fields]
        return StructType([*fields]).add(CORRUPT, StringType())

    @property
    def line_options(self) -> dict[str, str]:
        """Options of `rs_lines` with the facts about CSV that a single line does not show."""
        options = {"max_line_bytes": str(self.max_line_bytes)}
        if self.format == "csv" and self.schema is not None:
            options["records"] = json.dumps(self.schema.names if self.header else None)
            options["delimiter"] = self.delimiter
        return options


def parse_lines(
    lines: DataFrame, form: LineFormat, *, extra: Sequence[Column] = (), addressed: bool = False
) -> DataFrame:
    """Fields and REASON of each line of an `rs_lines` frame (split, line, offset, length, value; record, fault of CSV).

    Blank lines are not records. `extra` are further columns of `lines`; `addressed` adds the ADDRESS columns, and the
    field to the reason why a line of JSON cannot be used.
    """
    text = F.col("value").cast("string")
    kept = lines.filter(~is_blank(text))
    csv = form.format == "csv"
    record = F.coalesce(F.col(RECORD).cast("string"), text) if csv else text
    kept, fields, refused = _fields(kept, record, form, named=addressed)
    reason = F.coalesce(
        F.when(
            F.col("length") > F.octet_length("value"),
            F.concat(F.lit("the line has "), F.col("length"), F.lit(f" bytes, more than {form.max_line_bytes}")),
        ),
        F.when(~F.is_valid_utf8(text), F.lit("invalid UTF-8")),
        *([*_misread(text), F.col(FAULT)] if csv else []),
        refused,
    )
    return kept.select(*fields, *extra, reason.alias(REASON), *(address_of(text) if addressed else ()))


def address_of(text: Column) -> tuple[Column, ...]:
    """The ADDRESS columns of lines with that text."""
    return (
        F.col("split").alias(SPLIT),
        F.col("line").alias(LINE),
        F.col("offset").alias(OFFSET),
        F.make_valid_utf8(F.left(text, F.lit(RAW_LIMIT_BYTES))).alias(RAW),
    )


def _misread(text: Column) -> tuple[Column, ...]:
    """Why Spark's parser of CSV would misread a line."""
    with_nul = text.contains(NUL) & text.contains('"')
    return F.when(_is_unbalanced(text), F.lit(UNBALANCED)), F.when(with_nul, F.lit(WITH_NUL))


def _is_unbalanced(text: Column) -> Column:
    """Whether a line of CSV has an unmatched quote: a value continues in the next line, or ends in this one."""
    quotes = F.length(text) - F.length(F.replace(text, F.lit('"'), F.lit("")))
    return text.contains('"') & (quotes % 2 == 1)


def parsed_text(lines: DataFrame, form: LineFormat) -> DataFrame:
    """Fields and REASON of each line of a frame with the column `value`; blank lines are not records."""
    text = F.col("value")
    kept, fields, refused = _fields(lines.filter(~is_blank(text)), text, form)
    return kept.select(*fields, F.coalesce(text_reason(text), refused).alias(REASON))


def is_blank(text: Column) -> Column:
    """Whether a line has only white space."""
    return F.length(F.btrim(text, F.lit(WHITE_SPACE))) == 0


def text_reason(column: Column) -> Column:
    """Why a line of plain text cannot be used, null for a good one."""
    return F.when(~F.is_valid_utf8(column), F.lit("invalid UTF-8"))


def matched_fields(lines: DataFrame, text: Column, form: LineFormat) -> tuple[DataFrame, list[Column], Column]:
    """`lines` with the groups that a pattern finds in `text`, the fields made of them, and the reason if none.

    Fields and reason use the match, its groups and their values many times. These have their own projections, so that
    Spark computes each of them once a line.
    """
    names, expression = java_pattern(form.pattern or "")
    assert form.schema is not None  # the node checked it
    unknown = next((field.name for field in form.schema.fields if field.name not in names), None)
    if unknown is not None:
        raise ConfigurationError(
            f"the pattern has no group called {unknown!r}", remedy=f"its groups are: {', '.join(names)}"
        )
    replacement = MATCHED + GROUP.join(f"${i + 1}" for i in range(len(names)))
    marked = lines.withColumn(MATCH, F.regexp_replace(text, expression, replacement))
    parted = marked.withColumn(PARTS, F.split(F.substring(MATCH, 2, 1 << 30), GROUP))
    typed = [
        (field, F.get(PARTS, F.lit(names.index(field.name))), f"{PREFIX}field_{number}")
        for number, field in enumerate(form.schema.fields)
    ]
    valued = parted.select(
        "*", *(_typed(part, field.dataType.simpleString(), form).alias(value) for field, part, value in typed)
    )
    reasons = [
        F.when(text.contains(GROUP) | text.contains(MATCHED), F.lit("control characters in the line")),
        F.when(~F.col(MATCH).startswith(MATCHED), F.lit("the line does not match the pattern")),
        *(no_value(field, part, F.col(value), formatted=bool(form.time_format)) for field, part, value in typed),
    ]
    return valued, [F.col(value).alias(field.name) for field, _part, value in typed], F.coalesce(*reasons)


def no_value(field: StructField, part: Column, value: Column, *, formatted: bool = False) -> Column:
    """Why the text `part`, read as `value`, is not a value of its field; null if it is one.

    `formatted`: times were read by a format of the source.
    """
    endless = isinstance(field.dataType, FloatType | DoubleType)
    large = fault_reason([field], {field.name: value}.__getitem__, [TOO_LARGE]) if endless else F.lit(None)
    return F.coalesce(
        calendar_reason([field], {field.name: value}.__getitem__),
        F.when(value.isNull() & (F.length(part) > 0), misfit_text(field, part)),
        F.lit(None) if formatted else fault_reason([field], {field.name: part}.__getitem__, [WITHOUT_DATE]),
        F.when(~F.lower(part).contains("inf"), large),
    )


def java_pattern(pattern: str) -> tuple[list[str], str]:
    r"""The names of a pattern's groups, and the pattern in Java's syntax, matching the whole line and an end of it.

    >>> names, expression = java_pattern("%{USER:user} %{INT:ms}")
    >>> print(names, expression.removesuffix(LINE_END))
    ['user', 'ms'] ^(?:((?:[a-zA-Z0-9._-]+)) ([+-]?[0-9]+))
    """
    pattern = with_named_groups(pattern) if is_grok(pattern) else pattern
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"the pattern is not a regular expression: {error}") from error
    if compiled.groups != len(compiled.groupindex) or not compiled.groupindex:
        raise ConfigurationError("every group of the pattern needs a name", remedy="(?P<page>...), or (?:...) for none")
    return list(compiled.groupindex), f"^(?:{re.sub(r'[(][?]P<[^>]+>', '(', pattern)}){LINE_END}"


def _fields(
    lines: DataFrame, text: Column, form: LineFormat, *, named: bool = False
) -> tuple[DataFrame, list[Column], Column]:
    """`lines`, the fields of each, and the reason if there are none; of JSON it has the field if it is `named`."""
    if form.pattern is not None:
        return matched_fields(lines, text, form)
    if form.format == "text" or form.schema is None:
        return lines, [text.alias("value")], F.lit(None).cast("string")
    if form.format == "csv":
        parsed = F.from_csv(text, _csv_ddl(form), form.reader_options)
        fields, reason = typed_fields(form, parsed.__getitem__)
    else:
        parsed = json_fields(lines, text, form.reader_schema, form.reader_options)
        fields = [parsed[f.name].alias(f.name) for f in form.schema.fields]
        reason = json_reason(text, form.schema, parsed, form.reader_options)
    malformed = F.lit(f"malformed {form.format.upper()}")
    if named and form.format == "json" and not form.time_format:
        malformed = F.coalesce(misfit_reason(text, form.schema), malformed)
    refused = F.when(parsed.isNull() | parsed[CORRUPT].isNotNull(), malformed)
    return lines, fields, F.coalesce(refused, reason)


def parsed_json(
    frame: DataFrame, text: Column, schema: StructType, options: Mapping[str, str], *, into: str
) -> tuple[DataFrame, Column]:
    """`frame` with the fields of texts of JSON in the column `into`, and why a text cannot be used; null has no reason.

    A column of its own, so that a text is parsed once and not once a field.
    """
    frame = frame.withColumn(into, json_fields(frame, text, LineFormat("json", schema=schema).reader_schema, options))
    parsed = F.col(into)
    malformed = text.isNotNull() & (parsed.isNull() | parsed[CORRUPT].isNotNull())
    return frame, F.coalesce(F.when(malformed, F.lit("malformed JSON")), json_reason(text, schema, parsed, options))


def typed_fields(form: LineFormat, column: Callable[[str], Column]) -> tuple[list[Column], Column]:
    """The fields of records of CSV that were read by `reader_schema`, and why a record cannot be used."""
    assert form.schema is not None  # the caller has one
    found, reasons = [], []
    for field in form.schema.fields:
        part = column(field.name)
        as_text = form.as_text(field.dataType)
        value = part.try_cast(field.dataType) if as_text else part
        found.append(value.alias(field.name))
        checked = no_value(field, part, value) if as_text else calendar_reason([field], {field.name: value}.__getitem__)
        reasons.append(checked)
    return found, F.coalesce(*reasons)


def _csv_ddl(form: LineFormat) -> str:
    return ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in form.reader_schema.fields)


def _typed(part: Column, kind: str, form: LineFormat) -> Column:
    if kind == "string":
        return part
    if kind == TimestampType().simpleString() and form.time_format:
        return F.try_to_timestamp(part, F.lit(form.time_format))
    return part.try_cast(kind)


def without_address(frame: DataFrame) -> DataFrame:
    """`frame` without its ADDRESS columns."""
    return frame.drop(*ADDRESS)
