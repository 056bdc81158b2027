"""Proxies for values of a known type. Operations that are not modelled fall back to the real function."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from rs_assets.compile.python.tracing.expression import Expression, call
from rs_assets.compile.python.tracing.path import MOST_PARTS, Path

# Types whose values equal no text and no number.
UNEQUAL = (type(None), bytes, tuple, list, dict, dt.datetime, dt.date, dt.timedelta)


def _asks(what: str) -> Callable[..., Any]:
    def asked(self: Value, *_: object, **__: object) -> NoReturn:
        self.rs_path.ask(f"{what} of {self.rs_called} is not known")

    return asked


class Value:
    """A value that is not null. Its names begin with an underscore or `rs_`: code that uses such names is refused."""

    __slots__ = ("rs_expression", "rs_path")
    # The class that user code sees, and the name in messages.
    rs_python: ClassVar[type] = object
    rs_called: ClassVar[str] = "a value"

    def __init__(self, path: Path, expression: Expression) -> None:
        if expression.size > MOST_PARTS:
            path.ask("it computes too much")
        self.rs_path = path
        self.rs_expression = expression

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that a user's function sees."""
        return self.rs_python

    def __getattr__(self, name: str) -> Any:
        """Methods that are not modelled."""
        if name.startswith("_"):
            raise AttributeError(name)
        self.rs_path.ask(f".{name} of {self.rs_called} is not known")

    def rs_other(self, value: Any) -> Expression | None:
        """`value` as an operand of a comparison; None for a value that is unequal and unordered."""
        raise NotImplementedError

    def _unlike(self, value: Any) -> None:
        """Fall back to Python if `value` may define comparisons."""
        if not is_value(value) and type(value) not in UNEQUAL:
            self.rs_path.ask(f"comparing {self.rs_called} with {type(value).__name__} is not known")

    def rs_compared(self, operation: str, value: Any) -> Any:
        """Fork."""
        other = self.rs_other(value)
        if other is None:
            self._unlike(value)
            return NotImplemented
        return self.rs_path.fork(call(operation, self.rs_expression, other))

    def __eq__(self, other: object) -> Any:
        """Fork."""
        return self.rs_compared("=", other)

    def __ne__(self, other: object) -> Any:
        """Fork by the same question."""
        equal = self.rs_compared("=", other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> Any:
        """Fork."""
        return self.rs_compared("<", other)

    def __le__(self, other: Any) -> Any:
        """Fork."""
        return self.rs_compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        """Fork."""
        return self.rs_compared(">", other)

    def __ge__(self, other: Any) -> Any:
        """Fork."""
        return self.rs_compared(">=", other)

    __hash__ = _asks("the hash")
    __bool__ = _asks("the truth")
    __repr__ = _asks("the text")
    __str__ = _asks("the text")
    __format__ = _asks("the text")
    __iter__ = _asks("the parts")
    __len__ = _asks("the length")
    __getitem__ = _asks("a part")
    __index__ = _asks("the number")
    __int__ = _asks("the whole number")
    __float__ = _asks("the double")
    __round__ = _asks("the rounded number")


def is_value(value: object) -> bool:
    """Whether `value` is a proxy; `isinstance` would see the class that it stands for."""
    return issubclass(type(value), Value)


class Opaque(Value):
    """A value of a type that is not modelled: it can only be compared with None and passed on."""

    __slots__ = ("rs_kind",)
    rs_called = "a field of another type than text, boolean or number"

    def __init__(self, path: Path, expression: Expression, kind: str) -> None:
        super().__init__(path, expression)
        self.rs_kind = kind

    __hash__ = Value.__hash__
    __eq__ = __ne__ = _asks("comparing")
    __lt__ = __le__ = __gt__ = __ge__ = _asks("the order")
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _asks("arithmetic")
    __floordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = __or__ = __ror__ = _asks("arithmetic")
    __contains__ = _asks("the parts")


class Unknown:
    """A value from outside of the function: any use falls back to Python."""

    __slots__ = ("_path_of", "_why")

    def __init__(self, path_of: Callable[[], Path], why: str) -> None:
        self._path_of = path_of
        self._why = why

    def _ask(self, *_: object, **__: object) -> NoReturn:
        self._path_of().ask(self._why)

    def __getattr__(self, name: str) -> Any:
        """An attribute."""
        if name.startswith("_"):
            raise AttributeError(name)
        self._ask()

    __call__ = __bool__ = __iter__ = __len__ = __hash__ = __contains__ = __getitem__ = _ask
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _ask
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _ask
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __or__ = __ror__ = __and__ = __rand__ = _ask
    __repr__ = __str__ = __format__ = __index__ = __int__ = __float__ = __setitem__ = __delitem__ = _ask


class Passed(Unknown):
    """A field that `{**row}` takes: it can only be handed on as it is, null included."""

    __slots__ = ("rs_expression", "rs_kind")

    def __init__(self, path: Path, expression: Expression, kind: str) -> None:
        super().__init__(lambda: path, "it uses a field of {**row}")
        self.rs_expression = expression
        self.rs_kind = kind


def nan() -> float:
    """Not a number, a new object each time: containers compare by identity first."""
    return float(repr(math.nan))
