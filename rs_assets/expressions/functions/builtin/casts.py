"""Casts to other types; null if the value cannot be cast."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.kinds import date_of, moment_of

_row = Family("cast").row
# A double would change long numbers.
_WHOLE = "coalesce(try_cast({s} as TYPE), try_cast(try_cast({s} as decimal(38,18)) as TYPE))"
WHOLE = ("int", "bigint", "smallint", "tinyint")


def _cast(texts: Mapping[str, str]) -> str:
    kind, text = texts["type"], texts["s"]
    if kind in WHOLE:
        return _WHOLE.replace("TYPE", kind).format_map(texts)
    if kind == "timestamp":
        return moment_of(text, texts["zone"])
    if kind == "date":
        return date_of(text, texts["zone"])
    return text if kind == "string" else f"try_cast({text} as {kind})"


CASTS = (
    _row(
        "cast convert",
        "s text, type type",
        _cast,
        "{type}",
        "The value cast to another type.",
        {
            "cast('18.0','int')": 18,
            "cast('x','long')": None,
            "cast('1.5','double')": 1.5,
            "cast(1,'string')": "1",
            "cast('true','boolean')": True,
        },
    ),
    _row(
        "tochar tostring toText",
        "s text",
        "{s}",
        "string",
        "The value as a text.",
        {"tochar(1)": "1", "tostring(1.5)": "1.5"},
    ),
    _row(
        "toint",
        "s text",
        _WHOLE.replace("TYPE", "int"),
        "int",
        "The value as an int, without its decimals.",
        {"toint('18.7')": 18, "toint('x')": None, "toint('3000000000')": None},
    ),
    _row(
        "tolong tobigint",
        "s text",
        _WHOLE.replace("TYPE", "bigint"),
        "bigint",
        "The value as a long.",
        {
            "tolong('3000000000')": 3000000000,
            "tolong('9007199254740993.5')": 9007199254740993,
            "tolong('9223372036854775808')": None,
        },
    ),
    _row(
        "todouble tonumber",
        "s number",
        "{s}",
        "double",
        "The value as a double.",
        {"todouble('1e3')": 1000.0, "todouble('')": None},
    ),
    _row("tofloat", "s text", "try_cast({s} as float)", "float", "The value as a float.", {"tofloat('1.5')": 1.5}),
    _row(
        "todecimal",
        "s text, places whole = 2",
        "try_cast({s} as decimal(38, {places}))",
        "decimal(38,{places})",
        "The value as a decimal with `places` decimals.",
        {"tostring(todecimal('1.239'))": "1.24"},
    ),
    _row(
        "toboolean tobool",
        "s boolean",
        "{s}",
        "boolean",
        "The value as true or false.",
        {"toboolean('yes')": True, "toboolean('x')": None},
    ),
)
