"""All functions, by name and alias in any case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.builtin.arrays import ARRAYS
from rs_assets.expressions.functions.builtin.bits import BITS
from rs_assets.expressions.functions.builtin.casts import CASTS
from rs_assets.expressions.functions.builtin.conditional import CONDITIONAL
from rs_assets.expressions.functions.builtin.date_parts import DATE_PARTS
from rs_assets.expressions.functions.builtin.dates import DATES
from rs_assets.expressions.functions.builtin.encoding import ENCODING
from rs_assets.expressions.functions.builtin.epochs import EPOCHS
from rs_assets.expressions.functions.builtin.grok import GROK
from rs_assets.expressions.functions.builtin.json import JSON
from rs_assets.expressions.functions.builtin.json_objects import JSON_OBJECTS
from rs_assets.expressions.functions.builtin.log_pairs import LOG_PAIRS
from rs_assets.expressions.functions.builtin.math import MATH
from rs_assets.expressions.functions.builtin.regexp import REGEXP
from rs_assets.expressions.functions.builtin.tables import TABLES
from rs_assets.expressions.functions.builtin.text import TEXT
from rs_assets.expressions.functions.builtin.text_parts import TEXT_PARTS
from rs_assets.expressions.functions.function import Function
from rs_assets.expressions.functions.packages import load_packages
from rs_assets.expressions.functions.udf import AggregateFunction, Declared, TableFunction, declared, declared_names

# One table per family, in the order of the documentation.
FAMILIES: tuple[tuple[Function, ...], ...] = (
    TEXT,
    TEXT_PARTS,
    REGEXP,
    GROK,
    LOG_PAIRS,
    CONDITIONAL,
    MATH,
    BITS,
    DATES,
    DATE_PARTS,
    EPOCHS,
    JSON,
    JSON_OBJECTS,
    ARRAYS,
    ENCODING,
    CASTS,
)


class UnknownFunctionError(TopologyError):
    """No function has this name, or none takes this number of arguments."""


def _by_name(functions: Iterable[Function]) -> Mapping[str, tuple[Function, ...]]:
    found: dict[str, list[Function]] = {}
    for function in functions:
        for name in function.names:
            found.setdefault(name.casefold(), []).append(function)
    return MappingProxyType({name: tuple(overloads) for name, overloads in found.items()})


FUNCTIONS: Mapping[str, tuple[Function, ...]] = _by_name(function for table in FAMILIES for function in table)


TABLE_FUNCTIONS: Mapping[str, TableFunction] = MappingProxyType(
    {name.casefold(): each for each in TABLES for name in each.function.names}
)


def function_named(name: str, arity: int) -> Function:
    """The function with a name, in any case, that takes `arity` arguments: a built-in one, else a user-defined one.

    UnknownFunctionError, with the nearest names or the known signatures, if there is none.

    >>> function_named("SUBSTR", 3).signature
    'substring(s text, p int, n int)'
    >>> function_named("uper", 1)
    Traceback (most recent call last):
    rs_assets.expressions.functions.registry.UnknownFunctionError: there is no function 'uper'
      remedy: did you mean 'upper' or 'toupper' or 'power'?
    """
    overloads = FUNCTIONS.get(name.casefold(), ())
    fitting = next((each for each in overloads if each.accepts(arity)), None)
    if fitting is not None:
        return fitting
    if overloads:
        raise _misfit(name, arity, *overloads)
    found = udf_named(name)
    if isinstance(found, Function) and found.accepts(arity):
        return found
    if isinstance(found, Function):
        raise _misfit(name, arity, found)
    if found is not None or name.casefold() in TABLE_FUNCTIONS:
        raise UnknownFunctionError(f"{name} is not a scalar function", remedy=_elsewhere(name, found))
    raise _unknown(name, (*FUNCTIONS, *declared_names()))


def table_function_named(name: str, arity: int) -> TableFunction:
    """The table function with a name, in any case, that takes `arity` arguments; UnknownFunctionError if there is none.

    >>> table_function_named("STRING_SPLIT", 2).signature
    'string_split(s text, sep text)'
    """
    found = TABLE_FUNCTIONS.get(name.casefold()) or udf_named(name)
    if isinstance(found, TableFunction):
        if not found.accepts(arity):
            raise _misfit(name, arity, found)
        return found
    tables = [each for each in declared_names() if isinstance(declared(each), TableFunction)]
    raise _unknown(name, (*TABLE_FUNCTIONS, *tables), what="table function")


def udf_named(name: str) -> Declared | None:
    """The user-defined function with a name; packages with functions are imported if it is not declared yet."""
    if declared(name) is None:
        load_packages()
    return declared(name)


def _misfit(name: str, arity: int, *known: Function | TableFunction) -> UnknownFunctionError:
    return UnknownFunctionError(
        f"wrong number of arguments for {name}: {arity}",
        remedy=f"write {' or '.join(each.signature for each in known)}",
    )


def _elsewhere(name: str, found: Declared | None) -> str:
    """How to call a function that is not scalar."""
    if isinstance(found, AggregateFunction):
        return f"it is an aggregate, for GROUP BY in SQL: {found.signature}"
    return (
        f"it makes rows: LATERAL TABLE({name}(...)) AS t(a) in SQL, {name}(...) as a statement of its own in a script"
    )


def _unknown(name: str, known: Iterable[str], what: str = "function") -> UnknownFunctionError:
    near = get_close_matches(name.casefold(), list(known), n=3)
    remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else "docs/functions.md lists all functions"
    return UnknownFunctionError(f"there is no {what} {name!r}", remedy=remedy)
