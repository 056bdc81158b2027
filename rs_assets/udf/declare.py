"""The decorators that declare scalar, table and aggregate functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, overload

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Function
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.functions.udf import (
    PREFIX,
    UDF,
    AggregateFunction,
    Body,
    Declared,
    Form,
    Origin,
    TableFunction,
    declare,
)
from rs_assets.topology.user_code.outside import whole_digest
from rs_assets.udf.names import check_names
from rs_assets.udf.signature import Taken, accumulator_of, returned_by, rows_returned_by, taken_by

C = TypeVar("C", bound=Callable[..., Any])
# The attribute of a Python object that holds its declaration.
DECLARED: Final = "rs_declared"
AGGREGATE: Final = ("create", "accumulate", "value")


@overload
def function(call: C, /) -> C: ...


@overload
def function(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    arguments: object = None,
    returns: object = None,
    form: Form = "row",
) -> Callable[[C], C]: ...


def function(
    call: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    arguments: object = None,
    returns: object = None,
    form: Form = "row",
) -> Any:
    """Declare a scalar function. Scripts, conditions and SQL call it by name, steps call it by `functions`.

    Types come from the annotations, else from DDL: `arguments="s string, n bigint"`, `returns="string"`. Arguments are
    cast to them. If an argument is null and its parameter is not Optional (in DDL: NOT NULL), the result is null and
    the function is not called. With `form` "arrow" or "pandas" it gets an array or a series for each argument, with the
    values of many rows, and returns one of the same length. The decorated object itself is not changed.

    If the function raises, or its result does not fit its type, the record is bad, but only if the value is used: not
    in a branch of CASE that is not taken. It must be pure: it may be called again, and for rows that are dropped.

    >>> import rs_assets
    >>> @rs_assets.function
    ... def masked(text: str, kept: int = 2) -> str:
    ...     return text[:kept] + "*" * (len(text) - kept)
    >>> hits = rs_assets.StreamBuilder.data_stream("docs", "masks").from_array([{"user": "anna"}, {"user": None}])
    >>> hits.script("user=masked(user)").preview()
    [{'user': 'an**'}, {'user': None}]
    >>> hits.with_fields(user=rs_assets.functions.masked("user", 1)).preview()
    [{'user': 'a***'}, {'user': None}]
    """

    def declared(made: C) -> C:
        own = scalar(made, _name(made, name), aliases=aliases, arguments=arguments, returns=returns, form=form)
        _declared(made, own)
        return made

    return declared if call is None else declared(call)


def table_function(
    *, name: str | None = None, aliases: Sequence[str] = (), arguments: object = None, returns: object = None
) -> Callable[[C], C]:
    """Declare a table function: `LATERAL TABLE(f(x)) AS t(a, b)` in SQL, `f(x)` alone in a script.

    It returns rows or yields them: dicts, dataclasses, tuples in the order of the fields, or plain values of one field.
    `returns` is the schema of a row, by default from the annotation: `Iterator[Word]` of a dataclass or TypedDict,
    `list[str]` for rows with the one field `f0`. Everything else is as for `function`.

    >>> import rs_assets
    >>> @rs_assets.table_function(returns="word string, place bigint")
    ... def words_of(text: str):
    ...     for place, word in enumerate(text.split()):
    ...         yield word, place
    >>> lines = rs_assets.StreamBuilder.data_stream("docs", "words").from_array([{"line": "a b"}, {"line": None}])
    >>> lines.script("words_of(line)").preview()
    [{'line': 'a b', 'word': 'a', 'place': 0}, {'line': 'a b', 'word': 'b', 'place': 1}]
    """

    def declared(made: C) -> C:
        _declared(made, table(made, _name(made, name), aliases=aliases, arguments=arguments, returns=returns))
        return made

    return declared


@overload
def aggregate_function(cls: type, /) -> Any: ...


@overload
def aggregate_function(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    arguments: object = None,
    accumulator: str | None = None,
    returns: object = None,
) -> Callable[[type], Any]: ...


def aggregate_function(
    cls: type | None = None,
    /,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    arguments: object = None,
    accumulator: str | None = None,
    returns: object = None,
) -> Any:
    """Declare an aggregate for windows of SQL: a class with `create`, `accumulate`, `value`, and preferably `merge`.

    `accumulate(accumulator, value, ...)` returns the accumulator with the values of one more row, `value(accumulator)`
    the result. Their types come from the annotations, else from `arguments` and `returns`. A row with a null is skipped
    if the parameter is not Optional. With `merge(one, other)` the state of a window is one accumulator, of the type
    that `create` is annotated to return, else of `accumulator`. It may depend neither on the order of rows nor on how
    they are divided. Without `merge` the rows of a window are its state, as for `.reduce()`. A `retract` is never
    called.

    >>> import math
    >>> import rs_assets
    >>> @rs_assets.aggregate_function(name="geometric_mean")
    ... class GeometricMean:
    ...     def create(self) -> list[float]:
    ...         return [0.0, 0.0]
    ...
    ...     def accumulate(self, seen: list[float], value: float) -> list[float]:
    ...         return [seen[0] + math.log(value), seen[1] + 1]
    ...
    ...     def merge(self, one: list[float], other: list[float]) -> list[float]:
    ...         return [one[0] + other[0], one[1] + other[1]]
    ...
    ...     def value(self, seen: list[float]) -> float | None:
    ...         return math.exp(seen[0] / seen[1]) if seen[1] else None
    """

    def declared(made: type) -> type:
        own = aggregate(
            made, _name(made, name), aliases=aliases, arguments=arguments, accumulator=accumulator, returns=returns
        )
        _declared(made, own)
        return made

    return declared if cls is None else declared(cls)


def scalar(
    call: Callable[..., Any], name: str, *, aliases: Sequence[str] = (), arguments: object = None,
    returns: object = None, form: Form = "row",
) -> Function:  # fmt: skip
    """`call` as a scalar function of the languages; TopologyError or SchemaError if it cannot be one."""
    taken = taken_by(call, arguments, name=name)
    gives, fills = returned_by(call, returns, name=name)
    body = Body(
        f"{PREFIX}{name}_{_digest(call, taken, gives, form)}",
        name, call, taken.types, taken.needs, gives, fills=fills, form=form,
    )  # fmt: skip
    return _function(call, name, aliases, taken, gives, body)


def table(
    call: Callable[..., Any],
    name: str,
    *,
    aliases: Sequence[str] = (),
    arguments: object = None,
    returns: object = None,
) -> TableFunction:
    """`call` as a table function."""
    taken = taken_by(call, arguments, name=name)
    fields = rows_returned_by(call, returns, name=name)
    gives = f"array<struct<{', '.join(f'{quote_name(field)}: {kind}' for field, kind in fields)}>>"
    digest = _digest(call, taken, gives, "rows")
    body = Body(f"{PREFIX}{name}_{digest}", name, call, taken.types, taken.needs, gives, rows=True)
    return TableFunction(_function(call, name, aliases, taken, gives, body), fields)


def aggregate(
    made: Any, name: str, *, aliases: Sequence[str] = (), arguments: object = None, accumulator: str | None = None,
    returns: object = None,
) -> AggregateFunction:  # fmt: skip
    """A class, or an object, as an aggregate function."""
    missing = [method for method in AGGREGATE if not callable(getattr(made, method, None))]
    if missing:
        raise TopologyError(
            f"the aggregate {name!r} has no method {missing[0]!r}", remedy="give it create, accumulate and value"
        )
    one = made() if isinstance(made, type) else made
    taken = taken_by(one.accumulate, arguments, name=name, bound=1)
    if any(each.variadic for each in taken.parameters):
        raise TopologyError(f"the aggregate {name!r} takes any number of values", remedy="name each of them")
    gives, _ = returned_by(one.value, returns, name=name)
    kept = accumulator_of(one, accumulator, name=name)
    return AggregateFunction(_function(made, name, aliases, taken, gives, None), one, taken.needs, kept)


def _function(call: Any, name: str, aliases: Sequence[str], taken: Taken, gives: str, body: Body | None) -> Function:
    check_names((name, *aliases))
    variadic = {each.name for each in taken.parameters if each.variadic}

    def template(texts: Any) -> str:
        assert body is not None  # an aggregate is refused where a scalar function is wanted
        # A variadic parameter may have no arguments.
        given = [texts[each.name] for each in taken.parameters if each.name not in variadic or texts[each.name]]
        return body.sql(given)

    doc = (inspect.getdoc(call) or "").partition("\n")[0]
    code = body.name if body is not None else whole_digest(call.accumulate)
    return Function(name, UDF, taken.parameters, template, gives, doc, tuple(aliases), code=code)


def _digest(call: Callable[..., Any], *more: object) -> str:
    import hashlib

    return hashlib.sha256(f"{whole_digest(call)} {more}".encode()).hexdigest()[:12]


def _name(made: Any, name: str | None) -> str:
    return name or str(getattr(made, "__name__", type(made).__name__))


def _declared(made: Any, own: Declared) -> None:
    name, module = getattr(made, "__qualname__", type(made).__name__), getattr(made, "__module__", "?")
    file = getattr(sys.modules.get(module), "__file__", None)
    declare(own, Origin(f"{module}.{name}", f"{file}:{name}" if file else ""))
    # Bound methods and C functions cannot have attributes: they are found by name only.
    with suppress(AttributeError, TypeError):
        setattr(made, DECLARED, own)
