"""User-defined functions: the languages find them by name, like built-in ones.

A scalar function is a `Function` of the family UDF. Its Python code is a `Body`, which the Spark SQL of a call names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Function

UDF: Final = "own"
# Prefix of the names of bodies in Spark.
PREFIX: Final = "rs_own_"
# The same of functions of Java.
JAVA: Final = "rs_java_"
# What a body takes and returns: values of one row, or arrays or series with values of many rows.
Form = Literal["row", "arrow", "pandas"]


@dataclass(frozen=True, slots=True)
class Body:
    """What Spark calls: a Python function that takes columns of types `takes` and returns values of type `gives`.

    `needs` says for each argument whether a null makes the result null without a call; the last entries of `needs` and
    `takes` apply to all further arguments. `fills`: the result is never null. With `rows` it returns many values.
    """

    name: str
    label: str
    call: Callable[..., Any]
    takes: tuple[str, ...]
    needs: tuple[bool, ...]
    gives: str
    fills: bool = False
    rows: bool = False
    form: Form = "row"

    def sql(self, arguments: Sequence[str]) -> str:
        """The Spark SQL of a call; an error of the function is raised only where the value is used.

        The first argument gives the number of rows if there is no other argument.
        """
        ASKED[self.name] = self
        called = f"{self.name}({', '.join(['true', *arguments])})"
        value = "if(o.fault is null, o.value, raise_error(o.fault))"
        return f"get(transform(array({called}), o -> {value}), 0)"


@dataclass(frozen=True, slots=True)
class JavaBody:
    """What Spark calls in its own process: the method of an object of a class in `jars`, with a result of type `gives`.

    `method` is its name with its descriptor, `eval(J)J`. The name ends with a digest of the class name and the jars.
    `needs` says for each argument whether a null makes the result null without a call.
    """

    name: str
    label: str
    jars: tuple[str, ...]
    cls: str
    method: str
    needs: tuple[bool, ...]
    gives: str

    def sql(self, arguments: Sequence[str]) -> str:
        """The Spark SQL of a call; an error of the method is raised where the value is used."""
        ASKED[self.name] = self
        return f"{self.name}({', '.join(arguments)})"


# The bodies of the calls so far, by name.
ASKED: Final[dict[str, Body | JavaBody]] = {}


@dataclass(frozen=True, slots=True)
class NotScalar:
    """A table or aggregate function; name and parameters are those of `function`."""

    function: Function

    @property
    def name(self) -> str:
        """Its name."""
        return self.function.name

    @property
    def signature(self) -> str:
        """The signature of a call."""
        return self.function.signature

    def accepts(self, arity: int) -> bool:
        """Whether it accepts `arity` arguments."""
        return self.function.accepts(arity)


@dataclass(frozen=True, slots=True)
class TableFunction(NotScalar):
    """A table function, which makes rows: `LATERAL TABLE(f(x)) AS t(a, b)`, and `f(x)` alone in a script.

    `fields` are the names and Spark types of a row, unless `fields_of` makes them from the arguments of a call. The
    parameters are those of `function`.
    """

    fields: tuple[tuple[str, str], ...]
    fields_of: Callable[[Mapping[str, str]], tuple[tuple[str, str], ...]] | None = None

    def columns(self, *arguments: str) -> tuple[tuple[str, str], ...]:
        """The names and Spark types of a row of a call with these SQL texts; TopologyError if one does not fit.

        >>> from rs_assets.expressions.functions.registry import table_function_named
        >>> table_function_named("grok", 2).columns("line", "'%{IP:client} %{INT:ms:int}'")
        (('client', 'string'), ('ms', 'bigint'))
        """
        return self.fields if self.fields_of is None else self.fields_of(self.function.casts(*arguments))

    def rows(self, *arguments: str, zone: str = "UTC") -> str:
        """The Spark SQL of a call with these SQL texts: an array of structs with `fields`, in this order.

        `inline(...)` gives a row for each struct; for an empty array `inline_outer(...)` gives one row of nulls.
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
class AggregateFunction(NotScalar):
    """An aggregate of the rows of a window: an object with `create`, `accumulate` and `value`.

    The parameters and the result type are those of `function`, which cannot be called. `needs` says for each parameter
    whether rows with a null are skipped. `accumulator` is the Spark type of what is kept for a window if the object
    also has `merge`; without it (None) that are the rows.
    """

    aggregate: Any
    needs: tuple[bool, ...]
    accumulator: str | None = None


Declared = Function | TableFunction | AggregateFunction
_CALLED: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a function was declared: its qualified name, for people, and its position in a file.

    A file that is run as a program and also imported has two names for one function.
    """

    name: str
    place: str = ""

    def same(self, other: Origin) -> bool:
        """Whether both are the same function, declared again."""
        return self.name == other.name or (self.place != "" and self.place == other.place)


_DECLARED: Final[dict[str, tuple[Declared, Origin]]] = {}


def declare(made: Declared, origin: Origin) -> None:
    """Registers a function; TopologyError if one from another `origin` has its name."""
    function = made if isinstance(made, Function) else made.function
    for name in function.names:
        known = _DECLARED.get(name.casefold())
        if known is not None and not known[1].same(origin):
            raise TopologyError(
                f"{origin.name} declares the function {name!r}, which {known[1].name} already declares",
                remedy="take another name",
            )
    for name in function.names:
        _DECLARED[name.casefold()] = made, origin


def declared(name: str) -> Declared | None:
    """The user-defined function of this name, in any case."""
    found = _DECLARED.get(name.casefold())
    return found[0] if found is not None else None


def declared_in(text: str) -> Iterator[Function]:
    """The user-defined functions that a text of the languages calls, without duplicates, in the order of their code."""
    found = map(declared, _CALLED.findall(text)) if _DECLARED else ()
    functions = (each if isinstance(each, Function) else each.function for each in found if each is not None)
    yield from {each.code: each for each in sorted(functions, key=lambda each: each.code)}.values()


def declared_names() -> Iterator[str]:
    """The names of all declared functions, in lower case."""
    yield from tuple(_DECLARED)
