"""Columns that are written before Spark runs: recorded when written, built when the pipeline starts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from rs_assets.errors import TopologyError
from rs_assets.topology.user_code.code import value_text
from rs_assets.topology.user_code.outside import whole_digest

if TYPE_CHECKING:
    from pyspark.sql import Column


def _operator(name: str) -> Callable[..., Deferred]:
    return lambda self, *others: _method(self, name, others, {})


class Deferred:
    """A deferred Column, with all operators and methods of Spark's; `text` is its source.

    `fields` are the names given to `col`, which must exist.
    """

    def __init__(self, build: Callable[[], Column], text: str, fields: frozenset[str] = frozenset()) -> None:
        self.rs_build, self.rs_text, self.rs_fields = build, text, fields

    def __getattr__(self, name: str) -> Callable[..., Deferred]:
        """A method of Spark's Column, `isNull` or `cast`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **options: _method(self, name, args, options)

    def __getitem__(self, key: object) -> Deferred:
        """A part of an array, a map or a struct."""
        return _method(self, "__getitem__", (key,), {})

    def __bool__(self) -> NoReturn:
        """Refuse `and`, `or` and `not`, which ask for a truth value now."""
        raise TopologyError("a Column is neither true nor false before Spark runs", remedy="join them by &, | and ~")

    def __iter__(self) -> NoReturn:
        """Refuse a loop, which would not end."""
        raise TypeError("a Column cannot be iterated over")

    def __repr__(self) -> str:
        """The source of the Column."""
        return self.rs_text

    __hash__ = None  # type: ignore[assignment]
    # Written one by one, so that type checkers know them.
    __add__ = _operator("__add__")
    __sub__ = _operator("__sub__")
    __mul__ = _operator("__mul__")
    __truediv__ = _operator("__truediv__")
    __mod__ = _operator("__mod__")
    __pow__ = _operator("__pow__")
    __radd__ = _operator("__radd__")
    __rsub__ = _operator("__rsub__")
    __rmul__ = _operator("__rmul__")
    __rtruediv__ = _operator("__rtruediv__")
    __rmod__ = _operator("__rmod__")
    __rpow__ = _operator("__rpow__")
    __and__ = _operator("__and__")
    __or__ = _operator("__or__")
    __rand__ = _operator("__rand__")
    __ror__ = _operator("__ror__")
    __eq__ = _operator("__eq__")  # type: ignore[assignment]
    __ne__ = _operator("__ne__")  # type: ignore[assignment]
    __lt__ = _operator("__lt__")
    __le__ = _operator("__le__")
    __gt__ = _operator("__gt__")
    __ge__ = _operator("__ge__")
    __neg__ = _operator("__neg__")
    __invert__ = _operator("__invert__")


class Functions:
    """The functions of `pyspark.sql.functions`, for pipelines that are written before Spark runs.

    Each gives a deferred Column, which is built when the pipeline starts; unknown functions are reported then. The
    fields that `F.col` names are checked when the pipeline is built. Spark's own functions need a running Spark.

    >>> from rs_assets import F
    >>> F.upper(F.col("page")).isin("/A", "/B") & (F.col("ms") > 100)
    upper(col('page')).isin('/A', '/B').__and__(col('ms').__gt__(100))
    """

    def __getattr__(self, name: str) -> Callable[..., Deferred]:
        """The function of this name."""
        if name.startswith("_"):
            raise AttributeError(f"pyspark.sql.functions has no public function {name!r}")
        return lambda *args, **options: _function(name, args, options)


F = Functions()


def _function(function: str, args: tuple[Any, ...], options: dict[str, Any]) -> Deferred:
    def build() -> Column:
        from pyspark.sql import functions

        made: Column = _called(getattr(functions, function), args, options)
        return made

    named = frozenset(arg for arg in args if isinstance(arg, str)) if function in ("col", "column") else frozenset()
    return Deferred(build, f"{function}({_shown(args, options)})", named | _fields(args, options))


def _method(column: Deferred, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Deferred:
    def build() -> Column:
        made: Column = _called(getattr(column.rs_build(), name), args, options)
        return made

    text = f"{column!r}.{name}({_shown(args, options)})"
    return Deferred(build, text, _fields((column, *args), options))


def _called(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return function(*map(_now, args), **{name: _now(value) for name, value in options.items()})


def _now(value: Any) -> Any:
    """`value` with all deferred Columns in it built."""
    if isinstance(value, Deferred):
        return value.rs_build()
    if isinstance(value, list | tuple):
        return type(value)(map(_now, value))
    return _with_deferred(value) if callable(value) and not isinstance(value, type) else value


def _with_deferred(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, a lambda for `transform` and the like, which may mix its Columns with deferred ones."""

    @functools.wraps(function)
    def called(*columns: Column) -> Any:
        return _now(function(*(Deferred(functools.partial(_same, c), "x") for c in columns)))

    return called


def _same(column: Column) -> Column:
    return column


def _fields(args: tuple[Any, ...], options: dict[str, Any]) -> frozenset[str]:
    inner = [value for value in (*args, *options.values()) if isinstance(value, Deferred)]
    return frozenset().union(*(value.rs_fields for value in inner))


def _shown(args: tuple[Any, ...], options: dict[str, Any]) -> str:
    shown = [*map(_text, args), *(f"{name}={_text(value)}" for name, value in options.items())]
    return ", ".join(shown)


def _text(value: Any) -> str:
    return whole_digest(value) if callable(value) and not isinstance(value, Deferred | type) else value_text(value)
