"""Functions of users' own: the languages find them by name, as they find those of the tables.

A scalar function is a `Function` of the family OWN. What Spark has to call for it is a `Body`, under the name that
stands in the Spark SQL of a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Function

OWN: Final = "own"
# How the names begin under which Spark knows the bodies.
PREFIX: Final = "rs_own_"
# What a body gets and gives: values of one row, or arrays and series with those of many.
Form = Literal["row", "arrow", "pandas"]


@dataclass(frozen=True, slots=True)
class Body:
    """What Spark calls: a Python function of columns of the types `takes`, which gives values of the type `gives`.

    `needs` says of each argument whether the result is null where it is, without a call; of more arguments than there
    are types the last of both counts. `fills`: a value is always there. With `rows` it gives any number of them.
    """

    name: str
    told: str
    call: Callable[..., Any]
    takes: tuple[str, ...]
    needs: tuple[bool, ...]
    gives: str
    fills: bool = False
    rows: bool = False
    form: Form = "row"

    def sql(self, arguments: Sequence[str]) -> str:
        """The Spark SQL of a call; what the function raised is raised where the value is asked for, and only there.

        The first argument tells how many rows there are, where there is no other.
        """
        ASKED[self.name] = self
        called = f"{self.name}({', '.join(['true', *arguments])})"
        value = "if(o.fault is null, o.value, raise_error(o.fault))"
        return f"get(transform(array({called}), o -> {value}), 0)"


# The bodies that calls have been made of, by name.
ASKED: Final[dict[str, Body]] = {}


@dataclass(frozen=True, slots=True)
class NoScalar:
    """A function that gives no value for a row; name and parameters are those of `function`."""

    function: Function

    @property
    def name(self) -> str:
        """Its name."""
        return self.function.name

    @property
    def signature(self) -> str:
        """As it is called."""
        return self.function.signature

    def accepts(self, arity: int) -> bool:
        """Whether it may be called with so many arguments."""
        return self.function.accepts(arity)


@dataclass(frozen=True, slots=True)
class TableFunction(NoScalar):
    """A function that makes rows of values: `LATERAL TABLE(f(x)) AS t(a, b)`, and `f(x)` alone in a script.

    `fields` are names and Spark types of what a row has. The parameters are those of `function`.
    """

    fields: tuple[tuple[str, str], ...]

    def rows(self, *arguments: str, zone: str = "UTC") -> str:
        """The Spark SQL of a call with these SQL texts: an array of structs with `fields`, in this order.

        `inline(...)` gives a row for each; where there are none it gives no row, and `inline_outer(...)` one of nulls.
        TopologyError if an argument does not fit.

        >>> from rs_assets.expressions.functions.registry import table_function_named
        >>> words = table_function_named("string_split", 2)
        >>> words.fields
        (('f0', 'string'),)
        >>> print("inline(" + words.rows("line", "' '") + ") AS (word)")
        inline(transform(filter(split(cast(line as string), ...), part -> struct(part as f0))) AS (word)
        """
        return self.function.sql(*arguments, zone=zone)


@dataclass(frozen=True, slots=True)
class AggregateFunction(NoScalar):
    """An aggregate of the rows of a window: an object with `create`, `accumulate` and `value`.

    The parameters and the type of its value are those of `function`, which cannot be called. `needs` says of each
    parameter whether rows are passed over where it is null.
    """

    aggregate: Any
    needs: tuple[bool, ...]


Declared = Function | TableFunction | AggregateFunction
_CALLED: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a function was declared: its full name, for people, and its place in a file.

    A file that is run as a program and imported as well has two names for one function.
    """

    name: str
    place: str = ""

    def same(self, other: Origin) -> bool:
        """Whether both are one function, declared again."""
        return self.name == other.name or (self.place != "" and self.place == other.place)


_DECLARED: Final[dict[str, tuple[Declared, Origin]]] = {}


def declare(made: Declared, origin: Origin) -> None:
    """Let the languages know a function; one from another `origin` must not have its name."""
    function = made if isinstance(made, Function) else made.function
    for name in function.names:
        known = _DECLARED.get(name.casefold())
        if known is not None and not known[1].same(origin):
            raise TopologyError(
                f"{origin.name} declares the function {name!r}, which {known[1].name} has declared",
                remedy="take another name",
            )
    for name in function.names:
        _DECLARED[name.casefold()] = made, origin


def declared(name: str) -> Declared | None:
    """The function of users' own that has this name, in any case."""
    found = _DECLARED.get(name.casefold())
    return found[0] if found is not None else None


def declared_in(text: str) -> Iterator[Function]:
    """The functions of users' own that a text of the languages calls, each once, in the order of their code."""
    found = map(declared, _CALLED.findall(text)) if _DECLARED else ()
    functions = (each if isinstance(each, Function) else each.function for each in found if each is not None)
    yield from {each.code: each for each in sorted(functions, key=lambda each: each.code)}.values()


def declared_names() -> Iterator[str]:
    """The names of all that are declared, in lower case."""
    yield from tuple(_DECLARED)
