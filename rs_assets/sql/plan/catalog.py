"""The tables, views, functions and options that a file declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.registry import FUNCTIONS
from rs_assets.expressions.functions.udf import Declared
from rs_assets.sql.expressions.aggregates import AGGREGATES
from rs_assets.sql.expressions.functions import SQL_FUNCTIONS
from rs_assets.sql.expressions.udf import created, created_in_java, mark_aggregates
from rs_assets.sql.plan.window_functions import WINDOWS
from rs_assets.sql.read.source import Text, nearest
from rs_assets.sql.read.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Insert,
    Select,
    SetOption,
    Statement,
    WatermarkClause,
    Word,
)

# Functions that Flink programs declare by class, by the last part of the class name.
KNOWN_CLASSES: Final[Mapping[str, str]] = MappingProxyType({"CountChar": "COUNT_CHAR"})
LANGUAGES: Final = ("JAVA", "SCALA", "PYTHON")
ALLOW: Final = "sql.insert-permutation"
NULLS: Final = "table.exec.sink.not-null-enforcer"
# Options of SET and their values; all others are refused.
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        ALLOW: ("refuse", "allow"),
        NULLS: ("ERROR", "DROP"),
        "execution.runtime-mode": ("streaming",),
        "table.local-time-zone": ("UTC",),
    }
)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The declarations by name; names are case-sensitive, but may not differ only by case."""

    text: Text
    tables: Mapping[str, CreateTable]
    views: Mapping[str, CreateView]
    # The name of a built-in function, or a Python function.
    functions: Mapping[str, str | Declared]
    options: Mapping[str, str]
    inserts: tuple[Insert, ...]

    def table(self, name: str, at: object) -> CreateTable:
        """The table with a name; SqlError if there is none."""
        found = self.tables.get(name)
        if found is None:
            raise self.text.error(
                f"there is no table {name!r}",
                at,
                remedy=nearest(name, [*self.tables, *self.views]) or "CREATE TABLE",
            )
        return found


def catalog_of(text: Text, statements: Iterable[Statement], *, writes: bool = True) -> Catalog:
    """The catalog of a file; SqlError for duplicate names, and, with `writes`, for a file without INSERT."""
    every = tuple(statements)
    _check_names(text, every)
    inserts = tuple(each for each in every if isinstance(each, Insert))
    if writes and not inserts:
        raise text.error("nothing is written", len(text.sql.rstrip()), remedy="end with INSERT INTO sink SELECT ...")
    functions = dict(_function(text, each) for each in every if isinstance(each, CreateFunction))
    mark_aggregates(functions, (each.tree for each in every if isinstance(each, Insert | CreateView | Select)))
    return Catalog(
        text,
        MappingProxyType(_tables(text, every)),
        MappingProxyType({each.name.text: each for each in every if isinstance(each, CreateView)}),
        MappingProxyType(functions),
        MappingProxyType(dict(_option(text, each) for each in every if isinstance(each, SetOption))),
        inserts,
    )


def _tables(text: Text, statements: tuple[Statement, ...]) -> dict[str, CreateTable]:
    """The tables by name, with the watermarks declared in queries."""
    made = {each.name.text: each for each in statements if isinstance(each, CreateTable)}
    for mark in (each for each in statements if isinstance(each, WatermarkClause)):
        table, wanted = made.get(mark.table.text), mark.watermark
        if table is None:
            raise text.error(
                f"only a table can have a WATERMARK, and {mark.table.text!r} is not one", mark.table.start,
                remedy="write it where the table is read",
            )  # fmt: skip
        known = [column.name.text for column in table.columns]
        if wanted.column.text not in known:
            raise text.error(
                f"the table {mark.table.text!r} has no column {wanted.column.text!r}", wanted.column.start,
                remedy=nearest(wanted.column.text, known),
            )  # fmt: skip
        if table.watermark is not None and table.watermark.expression != wanted.expression:
            raise text.error(
                "a table has only one watermark", wanted.column.start, remedy="write the same one in all queries"
            )
        made[mark.table.text] = replace(table, watermark=wanted)
    return made


def _check_names(text: Text, statements: tuple[Statement, ...]) -> None:
    seen: dict[tuple[bool, str], Word] = {}
    for each in statements:
        name = each.name if isinstance(each, CreateTable | CreateView | CreateFunction) else None
        if name is None:
            continue
        # A function may have the name of a table.
        key = isinstance(each, CreateFunction), name.text.casefold()
        other = seen.get(key)
        if other is not None:
            why = "already" if other.text == name.text else f"as {other.text!r}, which differs by case only"
            raise text.error(f"{name.text!r} was created {why}", name.start, remedy="choose another name")
        seen[key] = name


def _function(text: Text, made: CreateFunction) -> tuple[str, str | Declared]:
    """A name and its function."""
    name = made.name.text.upper()
    language = made.language.text.upper() if made.language is not None else ""
    if made.language is not None and language not in LANGUAGES:
        raise text.error(f"unsupported function language {language}", made.language.start, remedy="LANGUAGE PYTHON")
    if name in AGGREGATES or name in WINDOWS:
        raise text.error(f"{name} is a built-in SQL function", made.name.start, remedy="choose another name")
    if made.jars:
        if language == "PYTHON":
            raise text.error("a function of Python has no jar", made.jars[0].start, remedy="leave out USING JAR")
        return name, created_in_java(text, made)
    if language == "PYTHON" or ":" in made.target.text:
        return name, created(text, made)
    last = made.target.text.rpartition(".")[2]
    found = KNOWN_CLASSES.get(last, last.upper())
    if found not in SQL_FUNCTIONS and found.casefold() not in FUNCTIONS:
        known = [*KNOWN_CLASSES, *SQL_FUNCTIONS, *FUNCTIONS]
        near = get_close_matches(last, known, n=1)
        raise text.error(
            f"unknown function {made.target.text!r}",
            made.target.start,
            remedy=nearest(last, near)
            or "use one of docs/functions.md, a class of a jar: USING JAR '/opt/shop.jar', or a Python function:"
            " 'module:function'",
        )
    return name, found


def _option(text: Text, made: SetOption) -> tuple[str, str]:
    key, value = made.key.text, made.value.text
    if key not in OPTIONS:
        raise text.error(f"unknown option {key!r}", made.key.start, remedy=nearest(key, OPTIONS))
    if value not in OPTIONS[key]:
        raise text.error(
            f"the option {key!r} cannot be {value!r}", made.value.start, remedy=f"use {' or '.join(OPTIONS[key])}"
        )
    return key, value
