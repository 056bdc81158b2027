"""Functions of texts as in Flink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.builtin.encoding import PARTS, part_of_url
from rs_assets.expressions.functions.literals import quote, separated_by, unquote
from rs_assets.sql.expressions.casts import text_of_bytes
from rs_assets.sql.expressions.sql_function import (
    MANY,
    Refusal,
    SqlFunction,
    as_int,
    textual,
    whole_literal,
)
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import is_number, is_whole

# Words consist of these characters; others are unchanged.
WORDS: Final = quote("[0-9A-Za-z]+|[^0-9A-Za-z]+")
NO_TEXT: Final = "cast(NULL AS string)"


def _only_texts(values: Sequence[Value]) -> Refusal:
    for place, value in enumerate(values, 1):
        if value.type is not None and value.type.name not in ("string", "void"):
            return f"its argument {place} is {value.type.text.upper()}, not a text", "CAST(... AS STRING)"
    return None


def _substring(values: Sequence[Value]) -> str:
    """From a position counted from 1, or from the end; null for a negative length."""
    text, at = values[0], as_int(values[1])
    length = f", {as_int(values[2])}" if len(values) > 2 else ""
    made = f"substring({text.plain}, {at}{length})"
    if (whole_literal(values[1]) or 0) < 0 or whole_literal(values[1]) is None:
        made = f"if({at} < -length({text.plain}), '', {made})"
    if len(values) > 2 and (whole_literal(values[2]) is None or (whole_literal(values[2]) or 0) < 0):
        made = f"if({as_int(values[2])} < 0, NULL, {made})"
    return made


def _padded(name: str) -> SqlFunction:
    def made(values: Sequence[Value]) -> str:
        text, length, pad = values[0].plain, as_int(values[1]), values[2].text
        return f"if({length} >= 0 AND {pad} <> '', {name}({text}, {length}, {pad}), NULL)"

    return SqlFunction(3, 3, made, "string", texts=(0, 2), numbers=(1,))


def _replaced(values: Sequence[Value]) -> str:
    """An empty text matches before each character and at the end."""
    text, old, new = (value.plain for value in values)
    if unquote(old):
        return f"replace({text}, {old}, {new})"
    between = f"if({text} = '', {new}, concat({new}, array_join(split({text}, ''), {new}), {new}))"
    return between if unquote(old) == "" else f"if({old} = '', {between}, replace({text}, {old}, {new}))"


def _literally(by: Value) -> Value:
    """The replacement is literal text: a `$1` or a backslash has no special meaning."""
    literal = unquote(by.text)
    if literal is not None:
        return Value(quote(literal.replace("\\", "\\\\").replace("$", "\\$")))
    return Value(f"replace(replace({by.text}, {quote(chr(92))}, {quote(chr(92) * 2)}), '$', {quote(chr(92) + '$')})")


def _separator(value: Value) -> str | None:
    """The SQL of a separator, which may be a character code; None if its kind is unknown."""
    if not is_whole(value.type):
        return None if unquote(value.text) == "" else value.text
    code = whole_literal(value)
    return quote(chr(code)) if code is not None and 0 < code <= 255 else None


def _separated(values: Sequence[Value]) -> Refusal:
    if values[1].type is not None and not is_whole(values[1].type) and values[1].type.name not in ("string", "void"):
        return f"its second argument is {values[1].type.text.upper()}", "write a text: SPLIT_INDEX(a, ',', 0)"
    if _separator(values[1]) is None:
        return "invalid separator", "write a text of at least one character, or a number from 1 to 255"
    return None


def _split_index(values: Sequence[Value]) -> str:
    """The part of a text at a position counted from 0; null if there is none, and for an empty text."""
    by = separated_by(_separator(values[1]) or "''")
    return f"get(split(nullif({values[0].plain}, ''), {by}, -1), {as_int(values[2])})"


def _split(values: Sequence[Value]) -> str:
    text, by = values[0].plain, values[1].plain
    if unquote(by) is not None:
        return f"split({text}, {separated_by(by) if unquote(by) else by}, -1)"
    return f"if({by} = '', split({text}, ''), split({text}, {separated_by(by)}, -1))"


def _matched(values: Sequence[Value]) -> str:
    subject, pattern = values[0].text, values[1].text
    return f"({subject} RLIKE {pattern})" if unquote(pattern) else f"({pattern} <> '' AND {subject} RLIKE {pattern})"


def _group(values: Sequence[Value], without: int) -> str | None:
    """The SQL of the group's number; None if a literal pattern has no such group."""
    number = whole_literal(values[2]) if len(values) > 2 else without
    pattern = unquote(values[1].text)
    if number is None or pattern is None:
        return as_int(values[2]) if len(values) > 2 else str(without)
    try:
        known = re.compile(pattern).groups
    except re.error:
        known = max(number, 0)
    return str(number) if 0 <= number <= known else None


def _extracted(values: Sequence[Value]) -> str:
    """Null without a match, where Spark returns an empty text, and for a missing group."""
    group = _group(values, 0)
    subject, pattern = values[0].text, values[1].text
    if group is None:
        return NO_TEXT
    return f"(CASE WHEN {subject} RLIKE {pattern} THEN regexp_extract({subject}, {pattern}, {group}) END)"


def _extracted_all(values: Sequence[Value]) -> str:
    group = _group(values, 1)
    if group is None:
        return "cast(NULL AS array<string>)"
    return f"regexp_extract_all({values[0].plain}, {values[1].plain}, {group})"


def _overlaid(values: Sequence[Value]) -> str:
    """A position outside of the text changes nothing; a length of 0 or less drops the rest."""
    text, new, at = values[0].plain, values[1].plain, as_int(values[2])
    length = as_int(values[3]) if len(values) > 3 else f"length({new})"
    behind = f"if({length} > 0, substring({text}, {at} + {length}), '')"
    made = f"concat(left({text}, {at} - 1), {new}, {behind})"
    return f"if({at} <= 0 OR {at} > length({text}), {text}, {made})"


def _decoded(values: Sequence[Value]) -> str:
    """The text of bytes; of UTF-8 any bytes, where Spark refuses wrong ones."""
    if (unquote(values[1].text) or "").upper() in ("UTF-8", "UTF8"):
        return text_of_bytes(values[0].text)
    return f"decode({values[0].plain}, {values[1].plain})"


def _element(values: Sequence[Value]) -> str:
    """One of the texts, by its position counted from 1."""
    place = as_int(values[0])
    texts = ", ".join(value.plain for value in values[1:])
    return f"get(array({texts}), if({place} > 0, {place} - 1, -1))"


def _addressed(values: Sequence[Value]) -> str:
    """A part of a URL; Spark reads the key of a query as a pattern."""
    part = unquote(values[1].text)
    if part in PARTS and not values[2:]:
        return part_of_url(values[0].plain, part)
    key = f", {separated_by(values[2].plain)}" if values[2:] else ""
    return f"try_parse_url({values[0].plain}, {values[1].plain}{key})"


def _trimmed(side: str) -> SqlFunction:
    def made(values: Sequence[Value]) -> str:
        letters = f"{values[1].text} " if len(values) > 1 else ""
        return f"trim({side} {letters}FROM {values[0].text})"

    return textual(made, 1, 2, texts=(0, 1))


def _of_letters(pattern: str) -> SqlFunction:
    def made(values: Sequence[Value]) -> str:
        return f"coalesce({values[0].text} RLIKE {quote(pattern)}, false)"

    return textual(made, 1, 1, "boolean")


def _is_decimal(values: Sequence[Value]) -> str:
    if is_number(values[0].type):
        return f"({values[0].text} IS NOT NULL)"
    return f"(try_cast({values[0].plain} AS double) IS NOT NULL)"


_INITCAP: Final = (
    f"array_join(transform(regexp_extract_all({{0}}, {WORDS}, 0), "
    "w -> if(w RLIKE '^[0-9A-Za-z]', concat(upper(left(w, 1)), lower(substring(w, 2))), w)), '')"
)
TEXTS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "UPPER": textual("upper({0})", 1, 1),
        "LOWER": textual("lower({0})", 1, 1),
        "INITCAP": textual(_INITCAP, 1, 1),
        "CHAR_LENGTH": textual("char_length({0})", 1, 1, "int"),
        "CHARACTER_LENGTH": textual("char_length({0})", 1, 1, "int"),
        "CONCAT": SqlFunction(1, MANY, "concat({all})", "string", refuses=_only_texts),
        "CONCAT_WS": SqlFunction(2, MANY, "concat_ws({all})", "string", refuses=_only_texts),
        "SUBSTRING": textual(_substring, 2, 3),
        "SUBSTR": textual(_substring, 2, 3),
        "LEFT": textual(lambda v: f"left({v[0].plain}, {as_int(v[1])})", 2, 2),
        "RIGHT": textual(lambda v: f"right({v[0].plain}, {as_int(v[1])})", 2, 2),
        "LPAD": _padded("lpad"),
        "RPAD": _padded("rpad"),
        "LTRIM": _trimmed("LEADING"),
        "RTRIM": _trimmed("TRAILING"),
        "BTRIM": _trimmed("BOTH"),
        "REPEAT": textual(lambda v: f"repeat({v[0].plain}, {as_int(v[1])})", 2, 2),
        "REVERSE": textual("reverse({0})", 1, 1),
        "REPLACE": textual(_replaced, 3, 3, texts=(0, 1, 2)),
        "TRANSLATE": textual("translate({0}, {1}, {2})", 3, 3, texts=(0, 1, 2)),
        "OVERLAY": textual(_overlaid, 3, 4, texts=(0, 1)),
        "INSTR": textual("instr({0}, {1})", 2, 2, "int", (0, 1)),
        "LOCATE": textual(
            lambda v: f"locate({v[0].plain}, {v[1].plain}{f', greatest({as_int(v[2])}, 1)' if v[2:] else ''})",
            2, 3, "int", (0, 1),
        ),
        "STARTSWITH": textual("startswith({0}, {1})", 2, 2, "boolean", (0, 1)),
        "ENDSWITH": textual("endswith({0}, {1})", 2, 2, "boolean", (0, 1)),
        "ASCII": textual("if({0} = '', 0, ascii({0}))", 1, 1, "int"),
        "CHR": SqlFunction(1, 1, "chr({0})", "string", numbers=(0,)),
        "ELT": SqlFunction(2, MANY, _element, "string", texts=(1,), numbers=(0,)),
        "SPLIT_INDEX": SqlFunction(3, 3, _split_index, "string", texts=(0,), numbers=(2,), refuses=_separated),
        "SPLIT": SqlFunction(2, 2, _split, "array<string>", texts=(0, 1)),
        "COUNT_CHAR": textual(
            "cast(length({0}) - length(replace({0}, {1}, '')) AS bigint)", 2, 2, "bigint", (0, 1)
        ),
        "REGEXP": textual(_matched, 2, 2, "boolean", (0, 1)),
        "REGEXP_COUNT": textual("regexp_count({0}, {1})", 2, 2, "int", (0, 1)),
        "REGEXP_EXTRACT": textual(_extracted, 2, 3, texts=(0, 1)),
        "REGEXP_EXTRACT_ALL": textual(_extracted_all, 2, 3, "array<string>", (0, 1)),
        "REGEXP_INSTR": textual("regexp_instr({0}, {1})", 2, 2, "int", (0, 1)),
        "REGEXP_REPLACE": textual(
            lambda v: f"regexp_replace({v[0].text}, {v[1].text}, {_literally(v[2]).text})", 3, 3, texts=(0, 1, 2)
        ),
        "REGEXP_SUBSTR": textual("regexp_substr({0}, {1})", 2, 2, texts=(0, 1)),
        "MD5": textual("md5({0})", 1, 1),
        "SHA1": textual("sha1({0})", 1, 1),
        **{f"SHA{bits}": textual(f"sha2({{0}}, {bits})", 1, 1) for bits in (224, 256, 384, 512)},
        "SHA2": SqlFunction(2, 2, "sha2({0}, {1})", "string", texts=(0,), numbers=(1,)),
        # Spark breaks lines after 76 characters.
        "TO_BASE64": textual(r"replace(base64({0}), '\r\n', '')", 1, 1),
        "FROM_BASE64": textual(text_of_bytes("to_binary({0}, 'base64')"), 1, 1),
        "ENCODE": textual("encode({0}, {1})", 2, 2, "binary", (0, 1)),
        "DECODE": SqlFunction(2, 2, _decoded, "string", texts=(1,)),
        "URL_ENCODE": textual("url_encode({0})", 1, 1),
        "URL_DECODE": textual("try_url_decode({0})", 1, 1),
        "PARSE_URL": textual(_addressed, 2, 3, texts=(0, 1, 2)),
        "IS_ALPHA": _of_letters(r"^\p{L}+\z"),
        "IS_DIGIT": _of_letters(r"^\p{Nd}+\z"),
        "IS_DECIMAL": SqlFunction(1, 1, _is_decimal, "boolean"),
    }
)  # fmt: skip
