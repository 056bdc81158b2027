"""The library's functions as Columns: `functions.trim("name")` is `trim(name)` of scripts and SQL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.functions.registry import FUNCTIONS, function_named
from rs_assets.expressions.functions.udf import PREFIX, declared_names
from rs_assets.topology.user_code.deferred import Deferred

if TYPE_CHECKING:
    from pyspark.sql import Column


class Called(Deferred):
    """A call of a library function, as Spark SQL."""

    def __init__(self, sql: str, text: str) -> None:
        self.rs_sql = sql
        super().__init__(self._column, sql if PREFIX in sql else text)

    def _column(self) -> Column:
        from pyspark.sql import functions as F

        return F.expr(self.rs_sql)


class LanguageFunctions:
    """The functions of scripts, conditions and SQL, for steps: those of docs/functions.md, and user-defined ones.

    Arguments are SQL, as in other steps: a field by its name, a text in quotes of its own. Numbers, True, False and
    None are literals, and calls can be nested. The result is a Column, as of `F`. A function whose name is a Python
    keyword is `functions["if"]`.

    >>> from rs_assets import functions
    >>> functions.lpad(functions.trim("name"), 5, "'*'")
    lpad(trim(name), 5, '*')
    >>> functions.upper("name").startswith("A")
    upper(name).startswith('A')
    >>> functions.uper("name")
    Traceback (most recent call last):
    rs_assets.expressions.functions.registry.UnknownFunctionError: there is no function 'uper'
      remedy: did you mean 'upper' or 'toupper' or 'power'?
    """

    def __getattr__(self, name: str) -> Callable[..., Called]:
        """The function of this name, in any case."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Callable[..., Called]:
        """The function of this name, in any case."""
        return lambda *arguments: _called(name, arguments)

    def __dir__(self) -> list[str]:
        """The names of functions."""
        return sorted({*(each.name for overloads in FUNCTIONS.values() for each in overloads), *declared_names()})


functions = LanguageFunctions()


def _called(name: str, arguments: tuple[Any, ...]) -> Called:
    texts = [_sql(value, name) for value in arguments]
    sql = function_named(name, len(arguments)).sql(*texts)
    return Called(sql, f"{name}({', '.join(map(_shown, arguments))})")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _sql(value: Any, name: str) -> str:
    """The SQL of an argument."""
    if isinstance(value, Called):
        return value.rs_sql
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value!r}')"
    if isinstance(value, str) and value.strip():
        return value
    if type(value) is Deferred and len(value.rs_fields) == 1:
        (field,) = value.rs_fields
        if repr(value) in (f"col({field!r})", f"column({field!r})"):
            return quote_name(field)
    raise TopologyError(
        f"an argument of {name} is SQL or a number, not {value!r}",
        remedy='write it as SQL, "ms / 1000" or "\'a text\'", or make it a field by with_fields before',
    )
