"""All functions, by their names and aliases in any case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from rs_assets.engine.functions.arrays import ARRAYS
from rs_assets.engine.functions.bits import BITS
from rs_assets.engine.functions.casts import CASTS
from rs_assets.engine.functions.conditional import CONDITIONAL
from rs_assets.engine.functions.date_parts import DATE_PARTS
from rs_assets.engine.functions.dates import DATES
from rs_assets.engine.functions.encoding import ENCODING
from rs_assets.engine.functions.epochs import EPOCHS
from rs_assets.engine.functions.function import Function
from rs_assets.engine.functions.json import JSON
from rs_assets.engine.functions.math import MATH
from rs_assets.engine.functions.regexp import REGEXP
from rs_assets.engine.functions.text import TEXT
from rs_assets.engine.functions.text_parts import TEXT_PARTS
from rs_assets.errors import TopologyError

# One table a family, in the order of the documentation.
FAMILIES: tuple[tuple[Function, ...], ...] = (
    TEXT,
    TEXT_PARTS,
    REGEXP,
    CONDITIONAL,
    MATH,
    BITS,
    DATES,
    DATE_PARTS,
    EPOCHS,
    JSON,
    ARRAYS,
    ENCODING,
    CASTS,
)


class UnknownFunctionError(TopologyError):
    """No function has this name, or none takes so many arguments."""


def _by_name(functions: Iterable[Function]) -> Mapping[str, tuple[Function, ...]]:
    found: dict[str, list[Function]] = {}
    for function in functions:
        for name in function.names:
            found.setdefault(name.casefold(), []).append(function)
    return MappingProxyType({name: tuple(overloads) for name, overloads in found.items()})


FUNCTIONS: Mapping[str, tuple[Function, ...]] = _by_name(function for table in FAMILIES for function in table)


def function_named(name: str, arity: int) -> Function:
    """The function of a name, in any case, that takes so many arguments.

    UnknownFunctionError, with the nearest names or the signatures there are, if there is none.

    >>> function_named("SUBSTR", 3).signature
    'substring(s text, p int, n int)'
    >>> function_named("uper", 1)
    Traceback (most recent call last):
    rs_assets.engine.functions.registry.UnknownFunctionError: there is no function 'uper'
      remedy: did you mean 'upper' or 'toupper' or 'power'?
    """
    overloads = FUNCTIONS.get(name.casefold(), ())
    fitting = next((each for each in overloads if each.accepts(arity)), None)
    if fitting is not None:
        return fitting
    if overloads:
        raise UnknownFunctionError(
            f"{name} takes other arguments than {arity}",
            remedy=f"write {' or '.join(each.signature for each in overloads)}",
        )
    near = get_close_matches(name.casefold(), FUNCTIONS, n=3)
    told = f"did you mean {' or '.join(map(repr, near))}?" if near else "docs/functions.md lists all functions"
    raise UnknownFunctionError(f"there is no function {name!r}", remedy=told)
