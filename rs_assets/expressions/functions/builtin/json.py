"""JSON texts. The result is null for invalid JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.kinds import PLAIN
from rs_assets.expressions.functions.literals import is_null, quote, unquote

_row = Family("json").row
# Paths that Spark reads; for any other it gives null for each row.
_PATH = re.compile(r"\$(?:\.(?:\*|[^.\[\]'*]+)|\[(?:\d+|\*|'[^'\]]+')\])*")

# Those of them that name one value, and a text that may be a number of which Spark has read 17 digits.
_ONE = re.compile(r"\$(?:\.\w+|\[\d+\]|\['[\w .-]+'\])*")
_LONG = "^-?[0-9.]{17,}(?:E-?[0-9]+)?$"


def exact_number(found: str, doc: str, path: str) -> str:
    """The SQL of the text `found` at a path of a document, with up to 38 digits if it is a number.

    Spark gives null for a null of an object, and the text `null` for one in an array, or for a document of it.
    """
    # What a call gives has lost the digits already, and would be written out several times.
    if not _ONE.fullmatch(path) or not PLAIN.fullmatch(doc):
        return found
    exact = f"try_variant_get(try_parse_json({doc}), {quote(path)}, 'string')"
    nothing = f" when {found} = 'null' then {exact}" if path == "$" or path.endswith("]") else ""
    return f"case when {found} rlike '{_LONG}' then coalesce({exact}, {found}){nothing} else {found} end"


def _at_path(texts: Mapping[str, str]) -> str:
    """`[*]` at the end of a path means the array itself, which Spark would unwrap if it has one item."""
    path = texts["path"]
    if is_null(path):
        return "cast(null as string)"
    plain = (unquote(path) or "").strip()
    if not _PATH.fullmatch(plain):
        raise TopologyError(f"{plain!r} is not a JSON path", remedy="write it as $.key, $['a key'], $[0] or $[*]")
    while plain.endswith("[*]"):
        plain = plain.removesuffix("[*]")
    return exact_number(f"get_json_object({texts['s']}, {quote(plain)})", texts["s"], plain)


def _of_key(texts: Mapping[str, str]) -> str:
    key = unquote(texts["key"])
    if key is None:
        return "cast(null as string)"
    if "'" in key or "]" in key:
        raise TopologyError(
            f"the key {key!r} has a quote or a bracket, which a path cannot contain", remedy="rename it at the source"
        )
    path = f"$['{key}']"
    return exact_number(f"get_json_object({texts['s']}, {quote(path)})", texts["s"], path)


# The parser ignores text after the first value: two kinds of brackets reveal it.
IS_JSON = (
    "(try_parse_json(concat('[', {s}, ']')) is not null and try_parse_json(concat('{{\"a\":', {s}, '}}')) is not null)"
)
# A field may have the name of a plain variable, but not this one.
_ITEMS = "transform(from_json({s}, 'array<map<string,string>>'), _rs_e -> try_element_at(_rs_e, {key}))"

JSON = (
    _row(
        "json_value json_get get_json_object jsonPath",
        "s text, path path",
        _at_path,
        "string",
        "The value at a path: $ is all, .a and ['a'] a key, [0] an item.",
        {
            "json_value('[10,20,[30,40]]','$[2][*]')": "[30,40]",
            'json_value(\'{"ccc":{"hhh":["h0","h1","h2"]}}\',\'$.ccc.hhh[*]\')': '["h0","h1","h2"]',
            'json_value(\'{"ccc":{"hhh":["h0","h1","h2"]}}\',\'$.ccc.hhh[1]\')': "h1",
            "json_value('[1]',null)": None,
            "json_value('[null]','$[0]')": None,
            "json_value('[\"null\"]','$[0]')": "null",
            "json_value('null','$')": None,
            "json_value('{x','$.a')": None,
            "json_value('{\"a\":[12345678901234567.89]}','$.a[0]')": "12345678901234567.89",
        },
    ),
    _row(
        "json_field get_json_field",
        "s text, key word",
        _of_key,
        "string",
        "The value of a key, which may contain dots.",
        {
            "json_field('{\"a.b\":1}','a.b')": "1",
            "json_field('{\"a\":1}','b')": None,
            "json_field('{\"a.b\":-0.12345678901234567890}','a.b')": "-0.1234567890123456789",
        },
    ),
    _row(
        "array_size size_array json_size",
        "s text",
        "coalesce(json_array_length({s}), 0)",
        "int",
        "The number of items of an array; 0 for anything else.",
        {"array_size('[1,2]')": 2, "array_size('x')": 0, "array_size(null)": 0},
    ),
    _row(
        "json_array_length jsonArrayLength",
        "s text",
        "json_array_length({s})",
        "int",
        "The number of items of an array.",
        {"json_array_length('[1,2]')": 2, "json_array_length('x')": None},
    ),
    _row(
        "json_object_keys json_keys",
        "s text",
        "json_object_keys({s})",
        "array<string>",
        "The keys of an object.",
        {'json_keys(\'{"a":1,"b":2}\')': ["a", "b"], "json_keys('[1]')": None},
    ),
    _row(
        "is_json isJson isValidJson",
        "s text",
        IS_JSON,
        "boolean",
        "Whether it is JSON.",
        {
            "is_json('{\"a\":[1]}')": True,
            "is_json('{a')": False,
            "is_json('1 2')": False,
            "is_json('1,2')": False,
            "is_json(null)": False,
        },
    ),
    _row(
        "in_max max_from_array",
        "s text, key text",
        f"array_max({_ITEMS})",
        "string",
        "The greatest text at a key of the objects of an array.",
        {'in_max(\'[{"a":"9"},{"a":"10"}]\',\'a\')': "9", "in_max('x','a')": None},
    ),
    _row(
        "in_min min_from_array",
        "s text, key text",
        f"array_min({_ITEMS})",
        "string",
        "The least text at a key of the objects of an array.",
        {'in_min(\'[{"a":"9"},{"a":"10"}]\',\'a\')': "10"},
    ),
    _row(
        "json_values in_values",
        "s text, key text",
        _ITEMS,
        "array<string>",
        "The texts at a key of the objects of an array.",
        {'json_values(\'[{"a":"9"},{"b":1}]\',\'a\')': ["9", None]},
    ),
    _row(
        "json_type jsonType",
        "s text",
        "lower(regexp_extract(schema_of_variant(try_parse_json({s})), '^[A-Z]+', 0))",
        "string",
        "The JSON type: object, array, string, boolean, bigint, double...",
        {"json_type('[1]')": "array", "json_type('{{}')": None, "json_type('{\"a\":1}')": "object"},
    ),
)
