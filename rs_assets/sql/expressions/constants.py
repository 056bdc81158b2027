"""Constants that would fail a run at its first row: they are refused at their position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, time
from types import MappingProxyType
from typing import Any, Final

from rs_assets.records.types import Type
from rs_assets.sql.expressions.expressions import Expressions, a_type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import is_whole

_MOMENT: Final = re.compile(
    r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{0,9})?)?\s*(?:Z|UTC|[+-]\d.*)?)?)?)?)?\s*"
)
FORMS: Final[Mapping[str, str]] = MappingProxyType(
    {"date": "DATE '2024-02-29'", "timestamp": "TIMESTAMP '2024-02-29 13:00:00'"}
)
# The bounds of each integer type.
RANGES: Final[Mapping[str, int]] = MappingProxyType({"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63})


def check_cast(made: Expressions, value: Value, tree: Any, kind: Type) -> None:
    """SqlError for a CAST that always fails: of a collection to a single value, of a text that is not a time."""
    if value.type is not None and value.type.nested and not kind.nested and kind.name != "string":
        raise made.error(
            f"{made.shown(tree.this)} is {a_type(value.type)}, not {kind.text.upper()}", tree,
            remedy="select a part of it: tags[1], who.id",
        )  # fmt: skip
    if tree.this.is_string and kind.name in FORMS and not _is_moment(tree.this.this):
        raise made.error(
            f"{tree.this.this!r} is not a {kind.name.upper()}", tree, remedy=f"write it as {FORMS[kind.name]}"
        )


def _is_moment(text: str) -> bool:
    """Whether a text is a calendar date, with or without a time of day."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return False
    day, clock = ([int(each or least) for each in found.group(*range(n, n + 3))] for n, least in ((1, 1), (4, 0)))
    return _holds(date, *day) and _holds(time, *clock)


def _holds(made: Callable[..., object], *parts: int) -> bool:
    try:
        made(*parts)
    except ValueError:
        return False
    return True


def check_place(made: Expressions, value: Value, place: Value, tree: Any) -> None:
    """SqlError for an array index that is never valid."""
    if value.type is None or value.type.name != "array":
        return
    number = tree.this if tree.key == "neg" else tree
    if place.type is not None and not is_whole(place.type):
        raise made.error(f"the index of an element is {a_type(place.type)}", tree, remedy="write tags[1]")
    if number.key == "literal" and (number is not tree or number.this == "0"):
        raise made.error("array indexes begin at 1", tree, remedy="write tags[1] for the first element")


def in_range(tree: Any, kind: Type) -> bool:
    """Whether a constant, if `tree` is a whole number, is one of `kind`."""
    number = tree.this if tree.key == "neg" else tree
    if number.key != "literal" or number.is_string or not number.this.isdigit() or kind.name not in RANGES:
        return True
    value = -int(number.this) if number is not tree else int(number.this)
    most = int(2 ** RANGES[kind.name])
    return -most <= value < most
