"""Casts: where Flink and Spark differ, the SQL follows Flink; casts that only Spark has are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote, quote_name, unquote
from rs_assets.records.types import Type
from rs_assets.sql.expressions.decimals import size_of
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.types import FLOATS, is_decimal, is_number, is_whole, type_of_cast

MILLISECONDS: Final = "yyyy-MM-dd HH:mm:ss.SSS"
# Flink's form of a time: a date, then a blank and hours, minutes and seconds; Spark would take more.
TIMES: Final = r"^ *\d{4}-\d{1,2}-\d{1,2}( \d{1,2}:\d{1,2}:\d{1,2}([.]\d{0,9})?)? *$"
# The decimals of a whole number in a text, which are dropped.
BEHIND_POINT: Final = r"[.][0-9]*(?= *$)"
BITS: Final[Mapping[str, int]] = MappingProxyType({"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64})
# Numbers of so many decimal digits are distinguished.
DIGITS_OF: Final[Mapping[str, int]] = MappingProxyType({"float": 6, "double": 15})
# The longest VARCHAR, which is a STRING.
LONGEST: Final = 2**31 - 1


def cast_as(text: Text, value: Value, tree: Any, *, failing: str) -> Value:
    """`value` as the type that a CAST names, cut or padded to its length, cut to its precision."""
    to = tree.args["to"]
    kind = type_of_cast(text, to, tree)
    made = cast(text, value, kind, tree, failing=failing)
    sizes = [int(each.this.name) for each in to.expressions]
    if kind.name == "string":
        return _of_length(made, to.this.name, sizes[0] if sizes else None)
    if kind.name == "timestamp" and sizes:
        return _to_digits(made, sizes[0])
    return made


def cast(text: Text, value: Value, kind: Type, at: object, *, failing: str = "cast") -> Value:
    """`value` as `kind`; `failing` is the Spark function: `cast` fails, `try_cast` returns null.

    SqlError between numbers and times, which Flink does not cast, and Spark takes as seconds.
    """
    known = value.type
    if known is not None and known.text == kind.text:
        return Value(value.text, kind, value.role)
    if known is not None and {known.name, kind.name} >= {"timestamp"} and (is_number(known) or is_number(kind)):
        remedy = "UNIX_TIMESTAMP(CAST(ts AS STRING))" if is_number(kind) else "TO_TIMESTAMP_LTZ(ms, 3)"
        raise text.error(f"a {known.text.upper()} cannot be cast to {kind.text.upper()}", at, remedy=f"write {remedy}")
    if known is not None and kind.name == "string":
        return Value(as_text(value.text, known), kind)
    if known is not None and is_number(kind) and (is_number(known) or known.name == "string"):
        return Value(_number(value, known, kind, failing), kind)
    if known is not None and (known.name, kind.name) == ("string", "timestamp"):
        return Value(_time(value, failing), kind)
    return Value(f"{failing}({value.plain} AS {kind.text})", kind)


def as_text(text: str, kind: Type | None, depth: int = 0) -> str:
    """A value of a type as a text, as Flink writes it: [1, NULL], {k=1}, (7, Ada), TRUE.

    >>> as_text("`flags`", Type("array", (("element", Type("boolean")),)))[:26]
    "concat('[', array_join(tra"
    """
    each = f"e{depth}"
    if kind is None or not kind.nested:
        return _plain_text(text, kind)
    parts = dict(kind.parts)
    if kind.name == "array":
        items = f"transform({text}, {each} -> {_shown(each, parts['element'], depth)})"
        return f"concat('[', array_join({items}, ', '), ']')"
    if kind.name == "map":
        key, value = (_shown(f"{each}.{name}", parts[name], depth) for name in ("key", "value"))
        pair = f"concat({key}, '=', {value})"
        return f"concat('{{', array_join(transform(map_entries({text}), {each} -> {pair}), ', '), '}}')"
    fields = ", ', ', ".join(_shown(f"{text}.{quote_name(name)}", part, depth) for name, part in kind.parts)
    return f"if({text} IS NULL, NULL, concat('(', {fields}, ')'))"


def _shown(text: str, kind: Type | None, depth: int) -> str:
    return f"coalesce({as_text(text, kind, depth + 1)}, 'NULL')"


def _plain_text(text: str, kind: Type | None) -> str:
    if kind is not None and kind.name == "timestamp":
        return f"date_format({text}, {quote(MILLISECONDS)})"
    if kind is not None and kind.name == "boolean":
        return f"upper(cast({text} AS string))"
    if kind is not None and kind.name == "string":
        return text
    if kind is not None and kind.name == "binary":
        return text_of_bytes(text)
    return f"cast({Value(text).plain} AS string)"


def text_of_bytes(text: str) -> str:
    """Bytes as a text of UTF-8, with U+FFFD for those that are none: as they are, no file or table could be read."""
    return f"make_valid_utf8(cast({Value(text).plain} AS string))"


def _number(value: Value, known: Type, kind: Type, failing: str) -> str:
    """A number or a text as a number."""
    if known.name == "string":
        return _number_of_text(value, kind, failing)
    if is_decimal(kind):
        # A number with too many digits is null in Flink.
        return f"{'cast' if _holds(kind, known) else 'try_cast'}({value.plain} AS {kind.text})"
    if not is_whole(kind):
        return f"cast({value.plain} AS {kind.text})"
    if is_whole(known):
        return _wrapped(value, kind) if BITS[kind.name] < BITS[known.name] else f"cast({value.plain} AS {kind.text})"
    if known.name in FLOATS:
        return _saturated(value, kind)
    return _wrapped(Value(f"{failing}({value.plain} AS bigint)"), kind)


def _holds(kind: Type, known: Type) -> bool:
    """Whether a DECIMAL can hold all numbers of a type, which may get one more digit by rounding."""
    if known.name in FLOATS:
        return False
    (p1, s1), (p2, s2) = size_of(known), size_of(kind)
    return p1 - s1 + (s1 > s2) <= p2 - s2


def _number_of_text(value: Value, kind: Type, failing: str) -> str:
    literal = unquote(value.text)
    if is_whole(kind) and (literal is None or "." in literal):
        whole = f"{failing}(regexp_replace({value.plain}, {quote(BEHIND_POINT)}, '') AS {kind.text})"
        return f"coalesce(try_cast({value.plain} AS {kind.text}), {whole})"
    if is_decimal(kind) and failing == "cast":
        made = f"{value.plain} AS {kind.text}"
        return f"if(try_cast({value.plain} AS double) IS NULL, cast({made}), try_cast({made}))"
    return f"{failing}({value.plain} AS {kind.text})"


def _wrapped(value: Value, kind: Type) -> str:
    """The lowest bits of a whole number, as in Java."""
    if kind.name == "bigint":
        return value.text
    half = 2 ** (BITS[kind.name] - 1)
    return f"cast((({value.text} & {2 * half - 1}L) ^ {half}L) - {half}L AS {kind.text})"


def _saturated(value: Value, kind: Type) -> str:
    """A floating-point number as a whole number, as in Java: the nearest in range, and 0 for NaN."""
    wide = kind if kind.name == "bigint" else Type("int")
    half = 2 ** (BITS[wide.name] - 1)
    inside = f"WHEN {value.text} >= {half}D THEN {half - 1} WHEN {value.text} <= -{half}D THEN {wide.name}('-{half}')"
    made = f"CASE WHEN isnan({value.text}) THEN 0 {inside} ELSE cast({value.plain} AS {wide.name}) END"
    return f"({made})" if kind == wide else _wrapped(Value(f"cast({made} AS int)"), kind)


def _time(value: Value, failing: str) -> str:
    """A time from a text in Flink's only form; `cast` of any other text fails the run with Spark's error."""
    literal = unquote(value.text)
    if literal is not None and re.fullmatch(TIMES, literal):
        return f"{failing}({value.plain} AS timestamp)"
    if failing == "try_cast":
        return f"(CASE WHEN {value.text} RLIKE {quote(TIMES)} THEN try_cast({value.plain} AS timestamp) END)"
    form = (
        f"if({value.text} RLIKE {quote(TIMES)}, {value.plain}, concat('not as 2026-01-05 10:00:00: ', {value.plain}))"
    )
    return f"cast({form} AS timestamp)"


def _of_length(value: Value, name: str, length: int | None) -> Value:
    """A text cut to the length of VARCHAR(n), or cut and padded with blanks to the length of CHAR(n)."""
    if name in ("CHAR", "NCHAR"):
        return Value(f"rpad({value.plain}, {length or 1}, ' ')", value.type)
    if length is None or length >= LONGEST:
        return value
    return Value(f"left({value.plain}, {length})", value.type)


def _to_digits(value: Value, digits: int) -> Value:
    """A time truncated to `digits` decimals of a second."""
    if digits >= 6 or (digits >= 3 and value.role):
        return value
    if digits in (0, 3):
        return Value(f"date_trunc('{'MILLISECOND' if digits else 'SECOND'}', {value.text})", value.type)
    micros = f"unix_micros({value.text})"
    return Value(f"timestamp_micros({micros} - pmod({micros}, {10 ** (6 - digits)}))", value.type)


def fits(known: Type | None, kind: Type | None, *, decimals: bool) -> bool:
    """Whether a sink column of the type `kind` accepts values of the type `known` without a CAST.

    With `decimals` a whole number may be made of one with decimals, as in Spark; in Flink it may not.
    """
    if known is None or kind is None or known.name == "void":
        return True
    if known.name == kind.name:
        parts = tuple(zip(known.parts, kind.parts, strict=False))
        return len(known.parts) == len(kind.parts) and all(fits(a, b, decimals=decimals) for (_, a), (_, b) in parts)
    if is_number(known) and is_number(kind):
        return decimals or is_whole(known) or not is_whole(kind)
    return {known.name, kind.name} == {"timestamp", "date"}


def distinguishes(known: Type | None, kind: Type | None) -> bool:
    """Whether values of the type `known` that differ do so as a `kind`, too, or end the run.

    >>> distinguishes(Type("bigint"), Type("int")), distinguishes(Type("bigint"), Type("double"))
    (True, False)
    >>> distinguishes(Type("timestamp"), Type("date")), distinguishes(Type("decimal(9,2)"), Type("decimal(9,1)"))
    (False, False)
    """
    if known is None or kind is None or known.text == kind.text:
        return True
    if not (is_number(known) and is_number(kind)):
        return (known.name, kind.name) != ("timestamp", "date")
    if known.name in FLOATS:
        return (known.name, kind.name) == ("float", "double")
    digits, places = size_of(known)
    if kind.name in FLOATS:
        return digits <= DIGITS_OF[kind.name]
    return places <= (size_of(kind)[1] if is_decimal(kind) else 0)
