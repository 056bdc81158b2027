"""User-defined functions in SQL: CREATE FUNCTION, and calls."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from rs_assets.errors import RsError, TopologyError
from rs_assets.expressions.functions.function import Function
from rs_assets.expressions.functions.registry import (
    FUNCTIONS,
    TABLE_FUNCTIONS,
    UnknownFunctionError,
    table_function_named,
    udf_named,
)
from rs_assets.expressions.functions.udf import AggregateFunction, Declared, TableFunction
from rs_assets.records.types import Type, type_in
from rs_assets.sql.expressions.decimals import size_of
from rs_assets.sql.expressions.expressions import Expressions, a_type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.source import Text, nearest
from rs_assets.sql.read.types import FLOATS, WHOLE, is_decimal, is_whole
from rs_assets.udf.declare import AGGREGATE, DECLARED, aggregate, scalar, table
from rs_assets.udf.java import java

if TYPE_CHECKING:
    from rs_assets.sql.read.statements import CreateFunction

# Meta key of the tree of a call of a user-defined aggregate.
UDF_AGGREGATE: Final = "own_aggregate"


def created(text: Text, made: CreateFunction) -> Declared:
    """The Python function that CREATE FUNCTION names: 'module:attribute', or 'module.attribute'."""
    target = made.target.text
    module, _, name = target.rpartition(":" if ":" in target else ".")
    if not module or not name:
        remedy = "name a module and its attribute: 'shop.functions:region'"
        raise text.error(f"{target!r} is not a function of a module", made.target.start, remedy=remedy)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        known = [each for each in vars(importlib.import_module(module)) if not each.startswith("_")]
        near = nearest(name, get_close_matches(name, known, n=1)) if get_close_matches(name, known, n=1) else ""
        what = f"the module {module!r} has no {name!r}"
        raise text.error(what, made.target.start, remedy=near or "name a function of it") from error
    except Exception as error:
        what = f"the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        raise text.error(what, made.target.start, remedy="add it to PYTHONPATH, or install it as a package") from error
    return _declared(text, made, found)


def created_in_java(text: Text, made: CreateFunction) -> Declared:
    """The class of Java or Scala that CREATE FUNCTION ... USING JAR names; SqlError if it is not a function."""
    jars = [_path(each.text) for each in made.jars]
    try:
        return java(made.target.text, made.name.text, jars)
    except TopologyError as error:
        raise text.error(error.what, made.target.start, remedy=error.remedy) from error


def _path(jar: str) -> Path:
    """The path of a jar; a URI has `%20` for a blank."""
    plain = jar.removeprefix("file://").removeprefix("file:")
    return Path(plain if plain == jar else unquote(plain)).expanduser().absolute()


def _declared(text: Text, made: CreateFunction, found: Any) -> Declared:
    """The existing declaration, else a new one for a function or class with annotations."""
    known = _known(found)
    # A wrapper around a declared function copies its attributes, but is another function.
    if known is not None and known is not _known(getattr(found, "__wrapped__", None)):
        return known
    is_aggregate = all(callable(getattr(found, method, None)) for method in AGGREGATE)
    try:
        if not callable(found) and not is_aggregate:
            raise TopologyError(f"{found!r} is not a function", remedy="name a function, or an aggregate class")
        make = aggregate if is_aggregate else table if inspect.isgeneratorfunction(found) else scalar
        return make(found, made.name.text)
    except RsError as error:
        raise text.error(error.what, made.target.start, remedy=error.remedy) from error


def _known(found: Any) -> Declared | None:
    """The declaration that an object carries."""
    return vars(found).get(DECLARED) if hasattr(found, "__dict__") else None


def mark_aggregates(functions: Mapping[str, str | Declared], trees: Iterable[Any]) -> None:
    """Marks the calls of user-defined aggregates in trees."""
    for tree in trees:
        for call in _calls(tree):
            name = call.name.removeprefix(CALL)
            if isinstance(_own(functions, name), AggregateFunction):
                call.meta[UDF_AGGREGATE] = True


def _calls(tree: Any) -> Iterator[Any]:
    return (node for node in tree.walk() if node.key == "anonymous")


def _own(functions: Mapping[str, str | Declared], name: str) -> Declared | None:
    """The user-defined function with the name of a call."""
    found = functions.get(name)
    if found is not None:
        return None if isinstance(found, str) else found
    return None if name.casefold() in FUNCTIONS or name.casefold() in TABLE_FUNCTIONS else udf_named(name)


def aggregate_called(functions: Mapping[str, str | Declared], name: str) -> AggregateFunction:
    """The aggregate of a marked call."""
    found = _own(functions, name)
    assert isinstance(found, AggregateFunction)  # it is marked
    return found


def table_function(
    text: Text, functions: Mapping[str, str | Declared], name: str, arity: int, at: object
) -> TableFunction:
    """The table function of a call in LATERAL TABLE: from CREATE FUNCTION, or declared.

    SqlError, with its position, if there is none, or none that takes this number of arguments.
    """
    try:
        found = functions.get(name.upper())
        if isinstance(found, TableFunction) and found.accepts(arity):
            return found
        if found is not None and not isinstance(found, str):
            wanted = found.signature if isinstance(found, TableFunction) else "a table function"
            raise UnknownFunctionError(
                f"{name} cannot be called with these arguments in LATERAL TABLE", remedy=f"write {wanted}"
            )
        return table_function_named(found or name, arity)
    except TopologyError as error:
        raise text.error(error.what, at, remedy=error.remedy) from error


def called(made: Expressions, function: Declared, name: str, values: list[Value], tree: Any) -> Value:
    """The Spark SQL of a call; SqlError for a wrong number or wrong types of arguments."""
    if not isinstance(function, Function):
        what = "is a table function" if isinstance(function, TableFunction) else "is an aggregate"
        remedy = (
            f"LATERAL TABLE({name}(...)) AS t(a)" if isinstance(function, TableFunction) else "use it with GROUP BY"
        )
        raise made.error(f"{name} {what}, which is not allowed here", tree, remedy=remedy)
    check_arguments(made, function, values, tree)
    text = function.sql(*(value.plain for value in values))
    return Value(text, type_in(function.returns))


def check_arguments(made: Expressions, function: Function, values: list[Value], tree: Any) -> None:
    """SqlError for a wrong number of arguments, or an argument that would lose information in its cast."""
    if not function.accepts(len(values)):
        raise made.error(
            f"wrong number of arguments for {function.name}: {len(values)}", tree, remedy=f"write {function.signature}"
        )
    for place, value in enumerate(values):
        wanted = type_in(function.kind_at(place))
        if wanted is not None and not _fits(value.type, wanted):
            known = a_type(value.type) if value.type is not None else "of unknown type"
            raise made.error(
                f"the argument {place + 1} of {function.name} is {known}, but must be {a_type(wanted)}",
                tree,
                remedy=f"CAST(... AS {wanted.text.upper()})",
            )


def _fits(known: Type | None, wanted: Type) -> bool:
    """Whether all values of a type fit another type."""
    if known is None or known.name == "void" or known.text == wanted.text:
        return True
    if is_whole(known) and is_whole(wanted):
        return WHOLE.index(known.name) <= WHOLE.index(wanted.name)
    if wanted.name in FLOATS:
        return (is_whole(known) or is_decimal(known) or known.name == "float") and wanted.name == "double"
    if is_decimal(wanted) and (is_whole(known) or is_decimal(known)):
        (digits, places), (most, most_places) = size_of(known), size_of(wanted)
        return digits - places <= most - most_places and places <= most_places
    return (known.name, wanted.name) == ("date", "timestamp")
