"""Flink's type names as Spark types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rs_assets.records.types import MOST_DIGITS, Type, type_in
from rs_assets.sql.read.source import Text, nearest

if TYPE_CHECKING:
    from sqlglot import exp

# Both kinds of TIMESTAMP become Spark's instant type, which its watermarks need.
SIMPLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "CHAR", "NVARCHAR"), "string"),
        **dict.fromkeys(("BYTES", "BINARY", "VARBINARY"), "binary"),
        **dict.fromkeys(("INT", "INTEGER"), "int"),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMPLTZ", "TIMESTAMPTZ", "DATETIME"), "timestamp"),
        "BOOLEAN": "boolean",
        "TINYINT": "tinyint",
        "SMALLINT": "smallint",
        "BIGINT": "bigint",
        "FLOAT": "float",
        "DOUBLE": "double",
        "DATE": "date",
    }
)
DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
NESTED: Final = ("ARRAY", "MAP", "ROW", "STRUCT")
# Types that Spark does not have, and their replacements.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TIME": "use STRING, or TIMESTAMP(3) with a date",
        "MULTISET": "use ARRAY<...>",
        "INTERVAL": "use BIGINT with milliseconds",
        "RAW": "use BYTES",
        "JSON": "use STRING, and JSON_VALUE(column, '$.path')",
    }
)
WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
FLOATS: Final = ("float", "double")
TEXT: Final = Type("string")
BOOLEAN: Final = Type("boolean")
TIMESTAMP: Final = Type("timestamp")
BIGINT: Final = Type("bigint")
DOUBLE: Final = Type("double")


def is_whole(kind: Type | None) -> bool:
    """Whether it is a whole number."""
    return kind is not None and kind.name in WHOLE


def has_map(kind: Type | None) -> bool:
    """Whether it is a MAP or has one in it, so that its values have no order."""
    return kind is not None and "map<" in kind.text


def is_decimal(kind: Type | None) -> bool:
    """Whether it is a DECIMAL."""
    return kind is not None and kind.name.startswith("decimal")


def is_number(kind: Type | None) -> bool:
    """Whether it is a number."""
    return is_whole(kind) or is_decimal(kind) or (kind is not None and kind.name in FLOATS)


def is_time(kind: Type | None) -> bool:
    """Whether it is a time or a date."""
    return kind is not None and kind.name in ("timestamp", "date")


def unknown_type(text: Text, name: str, at: object) -> Exception:
    """The error for an unknown type."""
    if name in REFUSED:
        return text.error(f"the type {name} is not supported", at, remedy=REFUSED[name])
    return text.error(f"unknown type {name!r}", at, remedy=nearest(name, (*SIMPLE, *DECIMALS, "ARRAY", "MAP", "ROW")))


def too_many_digits(text: Text, at: object) -> Exception:
    """The error for an invalid DECIMAL."""
    what = f"a DECIMAL has at most {MOST_DIGITS} digits, and no more decimals than digits"
    return text.error(what, at, remedy=f"DECIMAL({MOST_DIGITS}, 10)")


def type_of_cast(text: Text, tree: exp.DataType, at: object) -> Type:
    """The type of a CAST; SqlError if it is not supported there."""
    own = tree.args.get("kind")
    name = str(own).upper() if own is not None else tree.this.name
    found = SIMPLE.get(name)
    if found is None and name in DECIMALS:
        sizes = [param.this.name for param in tree.expressions]
        found = f"decimal({','.join(sizes) or '10'}{',0' if len(sizes) < 2 else ''})"
    made = type_in(found) if found is not None else None
    if made is None and name in DECIMALS:
        raise too_many_digits(text, at)
    if made is None and name in NESTED:
        remedy = "cast a part of it: CAST(tags[1] AS BIGINT), CAST(who.id AS BIGINT)"
        raise text.error(f"CAST makes no {name}", at, remedy=remedy)
    if made is None:
        raise unknown_type(text, name, at)
    return made


def common(one: Type | None, two: Type | None) -> Type | None:
    """The common type of two types, None if there is none or it is unknown.

    >>> common(Type("int"), Type("bigint")).name
    'bigint'
    """
    if one is None or two is None:
        return None
    if one.text == two.text:
        return one
    if is_whole(one) and is_whole(two):
        return max(one, two, key=lambda kind: WHOLE.index(kind.name))
    if is_number(one) and is_number(two) and (one.name in FLOATS or two.name in FLOATS):
        return Type("float") if {one.name, two.name} <= {"float", *WHOLE} else DOUBLE
    if is_number(one) and is_number(two):
        return _wide(_digits(one), _digits(two))
    return None


def _digits(kind: Type) -> tuple[int, int]:
    """Digits before and after the decimal point."""
    if is_whole(kind):
        return {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[kind.name], 0
    precision, scale = (int(part) for part in kind.name[len("decimal(") : -1].split(","))
    return precision - scale, scale


def _wide(one: tuple[int, int], two: tuple[int, int]) -> Type | None:
    before, behind = max(one[0], two[0]), max(one[1], two[1])
    return type_in(f"decimal({min(before + behind, MOST_DIGITS)},{behind})") if behind <= MOST_DIGITS else None
