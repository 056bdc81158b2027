"""Values of a document as they are written in it, also inside of its arrays, maps and objects.

Spark's parser changes some of them: 200 of a tinyint to -56, "1,5" of a decimal to 15, "12:30" of a timestamp to a time
of the clock's day, "5" of a date to a day of January 1970. These are read as another type besides, which says what the
value is; where it is not one of the type, the result is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.kinds import HOUR
from rs_assets.expressions.functions.literals import quote, quote_name

# Types with the type that they are read as besides, and the value of what was found and what is written.
EXACT: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = MappingProxyType(
    {
        "tinyint": ("smallint", lambda found, written: f"try_cast({written} as tinyint)"),  # noqa: ARG005
        "decimal": ("string", lambda found, written: f"if(contains({written}, ','), null, {found})"),
        "timestamp": ("string", lambda found, written: f"if({written} rlike '{HOUR}', null, {found})"),
        "date": (
            "string",
            lambda found, written: (
                f"if({written} rlike '^[+-]?[0-9]+$' and try_cast({written} as date) is null, null, {found})"
            ),
        ),
    }
)
_NAMES: Final = MappingProxyType({"byte": "tinyint", "dec": "decimal", "numeric": "decimal"})


def written_kind(kind: str) -> str:
    """The type by which a value of the Spark type `kind` is read besides; an empty text if the parser changes none.

    >>> written_kind("array<struct<id: int, price: decimal(10,2)>>"), written_kind("array<int>")
    ('array<struct<`price`: string>>', '')
    """
    if (base := _base(kind)) in EXACT:
        return EXACT[base][0]
    if (item := _inside(kind, "array")) is not None:
        return _of("array<{}>", written_kind(item))
    if (pair := _inside(kind, "map")) is not None:
        return _of("map<string,{}>", written_kind(separated(pair)[-1]))
    fields = [(name, written_kind(of)) for name, of in named(_inside(kind, "struct") or "")]
    return _of("struct<{}>", ", ".join(f"{quote_name(name)}: {other}" for name, other in fields if other))


def as_written(kind: str, found: str, written: str, depth: int = 0) -> str:
    """The SQL of a value of `kind`: `found` is what the parser made, `written` the same as `written_kind(kind)`.

    >>> as_written("array<decimal(10,1)>", "`a`", "`b`")
    "zip_with(`a`, `b`, (_rs_found0, _rs_written0) -> if(contains(_rs_written0, ','), null, _rs_found0))"
    """
    if not written_kind(kind):
        return found
    if (base := _base(kind)) in EXACT:
        return EXACT[base][1](found, written)
    one, other, key = (f"_rs_{name}{depth}" for name in ("found", "written", "key"))
    if (item := _inside(kind, "array")) is not None:
        return f"zip_with({found}, {written}, ({one}, {other}) -> {as_written(item, one, other, depth + 1)})"
    if (pair := _inside(kind, "map")) is not None:
        value = as_written(separated(pair)[-1], one, f"try_element_at({written}, {key})", depth + 1)
        return f"transform_values({found}, ({key}, {one}) -> {value})"
    members = ((name, quote_name(name), of) for name, of in named(_inside(kind, "struct") or ""))
    made = (f"{quote(name)}, {as_written(of, f'{found}.{at}', f'{written}.{at}', depth)}" for name, at, of in members)
    return f"if({found} is null, null, named_struct({', '.join(made)}))"


def named(fields: str) -> Iterator[tuple[str, str]]:
    """The names and types of the fields of a struct's DDL.

    >>> list(named("id int, `a b`: array<struct<x: int, y: int>>"))
    [('id', 'int'), ('a b', 'array<struct<x: int, y: int>>')]
    """
    for part in separated(fields) if fields else ():
        name, kind = re.fullmatch(r"(?s)(`[^`]*`|[^\s:]*)\s*:?\s*(.*)", part).groups()  # type: ignore[union-attr]
        yield name.strip("`"), kind


def separated(parts: str) -> list[str]:
    """The parts between the commas outside of brackets and of names in quotes.

    >>> separated("string, struct<a: int, b: decimal(10,2)>")
    ['string', 'struct<a: int, b: decimal(10,2)>']
    """
    found, depth, within = [""], 0, False
    for sign in parts:
        within ^= sign == "`"
        depth += 0 if within else (sign in "<(") - (sign in ">)")
        if sign == "," and not depth and not within:
            found.append("")
        else:
            found[-1] += sign
    return [part.strip() for part in found]


def _base(kind: str) -> str:
    """The name of a type without its digits."""
    name = kind.partition("(")[0].strip().lower()
    return _NAMES.get(name, name)


def _inside(kind: str, of: str) -> str | None:
    """What is between the brackets of a type such as array<...>; None for another type."""
    found = re.fullmatch(rf"(?is)\s*{of}\s*<(.*)>\s*", kind)
    return None if found is None else found[1].strip()


def _of(form: str, inner: str) -> str:
    return form.format(inner) if inner else ""
