"""Names that user-defined functions cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.registry import FUNCTIONS, TABLE_FUNCTIONS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(names: Iterable[str]) -> None:
    """TopologyError for a name that cannot be called, or that the languages use already."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise TopologyError(
                f"{name!r} is not a valid function name", remedy="use letters, digits and _: name='region_of'"
            )
        if name.casefold() in taken_names():
            raise TopologyError(
                f"scripts, conditions or SQL have a built-in function {name!r}",
                remedy="take another name: name='my_name'",
            )


@cache
def taken_names() -> frozenset[str]:
    """The names of all functions, statements and operators of the languages, in lower case."""
    from rs_assets.expressions.script.bind import STATEMENTS
    from rs_assets.expressions.syntax.bind import CALLED, CONSTANTS, JOINED
    from rs_assets.sql.expressions.aggregates import AGGREGATES
    from rs_assets.sql.expressions.functions import SQL_FUNCTIONS
    from rs_assets.sql.plan.window_functions import WINDOWS

    tables = (
        FUNCTIONS,
        TABLE_FUNCTIONS,
        CALLED,
        CONSTANTS,
        JOINED,
        STATEMENTS,
        AGGREGATES,
        SQL_FUNCTIONS,
        WINDOWS,
    )
    return frozenset(name.casefold() for table in tables for name in table) | RESERVED


# Keywords of the languages that precede a bracket.
RESERVED = frozenset({"if", "elseif", "else", "case", "cast", "in", "not", "row_number", "over", "table", "unnest"})
