"""Kinds of parameters: the cast of an argument, or the literal that it must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.formats import checked_format
from rs_assets.expressions.functions.literals import is_null, is_number, quote, unquote

_ATOM = re.compile(r"[\w.]+|`[^`]+`|'(?:[^'\\]|\\.)*'|\w*\([^()]*\)")
CHARSETS = ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32", "ISO-8859-1", "US-ASCII")
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNIT_WORDS = {unit: unit for unit in UNITS} | {f"{unit}S": unit for unit in UNITS}
_UNIT_WORDS |= {"YYYY": "YEAR", "YY": "YEAR", "WW": "WEEK", "DD": "DAY", "HH": "HOUR", "SS": "SECOND"}
_UNIT_WORDS |= {"FRAC_SECOND": "MILLISECOND"}
# Texts that Spark reads as a time or a date, but this project does not, as a literal of Spark SQL. Spark ignores
# control characters at the ends.
NO_TIME = r"(?s)^[\\p{Cntrl} ]*(?:[+-].*|[0-9]{5,}-.*|0000-.*|T?[0-9]{1,2}:.*)$"
# The beginning of a text that Spark reads as a time of the clock's day; in a literal of Spark SQL.
HOUR = r"^[\\p{Cntrl} ]*T?[0-9]{1,2}:"
# A time of day followed by an offset or a zone name.
OWN_ZONE = ":[0-9][0-9.]* *(?:[A-Za-z]|[+-]).*$"
# A field or a literal, as text: no call.
PLAIN = re.compile(r"cast\((?:`[^`]+`|[\w.]+) as string\)|'(?:[^'\\]|\\.)*'", re.DOTALL)
TYPES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("string", "text", "varchar", "char"), "string"),
        **dict.fromkeys(("int", "integer"), "int"),
        **dict.fromkeys(("long", "bigint"), "bigint"),
        **dict.fromkeys(("short", "smallint"), "smallint"),
        **dict.fromkeys(("byte", "tinyint"), "tinyint"),
        **dict.fromkeys(("double", "number"), "double"),
        **dict.fromkeys(("boolean", "bool"), "boolean"),
        **dict.fromkeys(("date",), "date"),
        **dict.fromkeys(("datetime", "timestamp"), "timestamp"),
        "float": "float",
        "decimal": "decimal(38,18)",
    }
)


def coerced(sql: str, kind: str, what: str, zone: str = "UTC") -> str:
    """The SQL text of an argument as a parameter of this kind takes it; TopologyError names it as `what`.

    Parameters of user-defined functions have any Spark type. A text without a zone of its own is a time of `zone`.
    """
    if kind in TIMES:
        return TIMES[kind](_text(sql.strip(), what), zone)
    return KINDS.get(kind, _cast(kind))(sql.strip(), what)


def atom(sql: str) -> str:
    """`sql`, in brackets if an adjacent operator could bind to a part of it."""
    return sql if _ATOM.fullmatch(sql) else f"({sql})"


def _text(sql: str, _what: str) -> str:
    return sql if unquote(sql) is not None else f"cast({sql} as string)"


def _cast(kind: str) -> Callable[[str, str], str]:
    return lambda sql, what: f"try_cast({sql} as {kind})"  # noqa: ARG005  the table's form


def time_of(text: str) -> str:
    """The SQL of the time in a text: ISO 8601, also with several blanks; null for any other text.

    Years are 1 to 9999: Spark raises when it moves other times. An hour alone is null: Spark would add the current
    date, which differs when the batch is computed again.
    """
    return f"try_to_timestamp(regexp_replace(trim({text}), '{NO_TIME}| +', ' '))"


def local_time_of(text: str, zone: str) -> str:
    """The SQL of the same as a local time of a zone; a text with a zone of its own is a moment."""
    time = time_of(text)
    return time if zone == "UTC" else f"if({text} rlike '{OWN_ZONE}', from_utc_timestamp({time}, '{zone}'), {time})"


def moment_of(text: str, zone: str) -> str:
    """The SQL of the moment in a text, which is a local time of a zone if it has no zone of its own."""
    time = time_of(text)
    return time if zone == "UTC" else f"if({text} rlike '{OWN_ZONE}', {time}, to_utc_timestamp({time}, '{zone}'))"


def date_of(text: str, zone: str) -> str:
    """The SQL of the date in a text; of a text with a zone of its own that of its local time in `zone`.

    What a call makes is written once, as calls of calls would grow too long.
    """
    if not PLAIN.fullmatch(text):
        return f"get(transform(array({text}), _rs_t -> {_date_in('_rs_t', zone)}), 0)"
    return _date_in(text, zone)


def _date_in(text: str, zone: str) -> str:
    date = f"try_cast(regexp_replace(trim({text}), '{NO_TIME}', '') as date)"
    return f"coalesce(if({text} rlike '{OWN_ZONE}', cast({local_time_of(text, zone)} as date), null), {date})"


def _literal(sql: str, what: str) -> str:
    """The text of a literal; a number is its digits."""
    found = unquote(sql)
    if found is None and is_number(sql):
        return sql.replace(" ", "")
    if found is None:
        raise TopologyError(f"the {what} must be a literal, not {sql}", remedy="write it in quotes: 'like this'")
    return found


def _quoted(sql: str, what: str) -> str:
    return sql if is_null(sql) else quote(_literal(sql, what))


def _whole(sql: str, what: str) -> str:
    text = _literal(sql, what)
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise TopologyError(f"the {what} must be a whole number, not {text!r}", remedy="write digits")
    return text


def _format(sql: str, what: str) -> str:
    return quote(checked_format(_literal(sql, what), what))


def _readable(sql: str, what: str) -> str:
    return quote(checked_format(_literal(sql, what), what, read=True))


def _unit(sql: str, what: str) -> str:
    text = _literal(sql, what)
    # Only these two units differ by case alone.
    word = {"MM": "MONTH", "mm": "MINUTE"}.get(text) or _UNIT_WORDS.get(text.upper())
    if word is None:
        raise TopologyError(
            f"the {what} is not a unit of time: {text!r}", remedy=f"use one of: {', '.join(UNITS).lower()}"
        )
    return word


def _one_of(words: Mapping[str, str], upper: bool) -> Callable[[str, str], str]:  # noqa: FBT001  two tables
    def checked(sql: str, what: str) -> str:
        text = _literal(sql, what)
        word = words.get(text.upper() if upper else text.lower())
        if word is None:
            raise TopologyError(f"the {what} cannot be {text!r}", remedy=f"use one of: {', '.join(words)}")
        return word

    return checked


_CHARSETS = {name: f"'{name}'" for name in CHARSETS} | {
    "UTF8": "'UTF-8'",
    "ASCII": "'US-ASCII'",
    "LATIN1": "'ISO-8859-1'",
}

KINDS: Mapping[str, Callable[[str, str], str]] = MappingProxyType(
    {
        # Values.
        "any": lambda sql, what: atom(sql),  # noqa: ARG005
        "text": _text,
        "number": _cast("double"),
        "long": _cast("bigint"),
        "int": _cast("int"),
        "boolean": _cast("boolean"),
        "decimal": _cast("decimal(38,18)"),
        # Literals.
        "pattern": _quoted,
        "path": _quoted,
        "word": _quoted,
        "whole": _whole,
        "format": _format,
        "readable": _readable,
        "unit": _unit,
        "charset": _one_of(_CHARSETS, upper=True),
        "type": _one_of(TYPES, upper=False),
    }
)
TIMES: Mapping[str, Callable[[str, str], str]] = MappingProxyType({"timestamp": moment_of, "date": date_of})
LITERALS = frozenset({"pattern", "path", "word", "whole", "format", "readable", "unit", "charset", "type"})
