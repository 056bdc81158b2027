"""Proxies for numbers: whole ones with bounds, and doubles that are not nan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rs_assets.compile.python.tracing.expression import (
    EXACT_DOUBLE,
    GREATEST,
    LEAST,
    Expression,
    Literal,
    call,
    literal,
    whole,
)
from rs_assets.compile.python.tracing.path import Path
from rs_assets.compile.python.tracing.values import Value, nan

Bounds = tuple[int, int]
# The least and the greatest value of a result, by those of both sides.
BOUNDS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": lambda a, b: (min(x * y for x in a for y in b), max(x * y for x in a for y in b)),
}


def _operator(operation: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def made(self: Any, other: Any) -> Any:
        return self.rs_arithmetic(operation, other, swapped=swapped)

    return made


class Number(Value):
    """The base of whole numbers and doubles."""

    __slots__ = ()

    __add__, __radd__ = _operator("+"), _operator("+", swapped=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", swapped=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", swapped=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", swapped=True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", swapped=True)
    __mod__, __rmod__ = _operator("%"), _operator("%", swapped=True)


class Whole(Number):
    """A whole number between `least` and `greatest`, which fit a bigint."""

    __slots__ = ("rs_greatest", "rs_least")
    rs_python = int
    rs_called = "a whole number"

    def __init__(self, path: Path, expression: Expression, least: int, greatest: int) -> None:
        super().__init__(path, expression)
        self.rs_least = least
        self.rs_greatest = greatest

    def rs_other(self, value: Any) -> Expression | None:
        """The expression to compare `value` by."""
        made = self.rs_as_whole(value)
        return None if made is None else made.rs_expression

    def rs_as_whole(self, value: Any) -> Whole | None:
        """`value` as a whole number, None for other values."""
        if issubclass(type(value), Whole):
            return value  # type: ignore[no-any-return]
        if type(value) not in (int, bool):
            return None
        if not LEAST <= value <= GREATEST:
            self.rs_path.ask(f"{value} is more than a bigint holds")
        return Whole(self.rs_path, whole(int(value)), int(value), int(value))

    def rs_compared(self, operation: str, value: Any) -> Any:
        """Fork; a comparison with a double is exact or falls back to Python."""
        if type(value) is float or issubclass(type(value), Real):
            return self.rs_exact_double().rs_compared(operation, value)
        return super().rs_compared(operation, value)

    def rs_exact_double(self) -> Real:
        """The same number as a double; falls back to Python if there is none."""
        if self.rs_least < -EXACT_DOUBLE or self.rs_greatest > EXACT_DOUBLE:
            bounds = (whole(-EXACT_DOUBLE), whole(EXACT_DOUBLE))
            if not self.rs_path.fork(call("between", self.rs_expression, *bounds)):
                self.rs_path.ask("whole numbers beyond 2**53 have no exact double")
        return self._double()

    def _double(self) -> Real:
        """The nearest double, as Python rounds to it, too."""
        if self.rs_least == self.rs_greatest:
            return Real(self.rs_path, literal("double", float(self.rs_least)), finite=True)
        return Real(self.rs_path, call("double", self.rs_expression), finite=True)

    def __bool__(self) -> bool:
        """Fork on zero."""
        return not self.rs_path.fork(call("=", self.rs_expression, whole(0)))

    def __neg__(self) -> Any:
        """The negative number."""
        return 0 - self

    def __pos__(self) -> Whole:
        """The number itself."""
        return self

    def __abs__(self) -> Any:
        """Fork on the sign."""
        return -self if self < 0 else self

    def rs_arithmetic(self, operation: str, other: Any, *, swapped: bool) -> Any:
        """The result of an operation; falls back to Python where it may differ."""
        if type(other) is float or issubclass(type(other), Real):
            return self._double().rs_arithmetic(operation, other, swapped=swapped)
        made = self.rs_as_whole(other)
        if made is None:
            return NotImplemented
        left, right = (made, self) if swapped else (self, made)
        if operation in BOUNDS:
            return _fitting(operation, left, right)
        if operation == "/":
            return left.rs_exact_double().rs_arithmetic("/", right.rs_exact_double(), swapped=False)
        return _remainder(operation, left, right)


def _fitting(operation: str, left: Whole, right: Whole) -> Whole:
    """The result of a sum, difference or product; falls back to Python where it does not fit a bigint."""
    bounds = BOUNDS[operation]((left.rs_least, left.rs_greatest), (right.rs_least, right.rs_greatest))
    made = call(operation, left.rs_expression, right.rs_expression)
    if (bounds[0] < LEAST or bounds[1] > GREATEST) and left.rs_path.fork(call("is_null", made)):
        left.rs_path.ask("the result is more than a bigint holds")
    return Whole(left.rs_path, made, max(bounds[0], LEAST), min(bounds[1], GREATEST))


def _remainder(operation: str, left: Whole, right: Whole) -> Whole:
    """The remainder or the floor of a division by a constant above zero."""
    path, divisor = left.rs_path, right.rs_least
    if divisor != right.rs_greatest or divisor <= 0:
        path.ask(f"{operation} is known for a divisor that is a constant above zero")
    rest = call("pmod", left.rs_expression, right.rs_expression)
    if operation == "%":
        return Whole(path, rest, 0, divisor - 1)
    if left.rs_least - divisor < LEAST and path.fork(call("<", left.rs_expression, whole(LEAST + divisor))):
        path.ask("the result is more than a bigint holds")
    floor = call("div", call("-", left.rs_expression, rest), right.rs_expression)
    return Whole(path, floor, left.rs_least // divisor, left.rs_greatest // divisor)


class Real(Number):
    """A double that is not nan, perhaps infinite; nan is the real `nan`."""

    __slots__ = ("rs_finite",)
    rs_python = float
    rs_called = "a double"

    def __init__(self, path: Path, expression: Expression, *, finite: bool = False) -> None:
        super().__init__(path, expression)
        self.rs_finite = finite

    def rs_other(self, value: Any) -> Expression | None:
        """The expression to compare `value` by."""
        if issubclass(type(value), Real):
            return value.rs_expression  # type: ignore[no-any-return]
        if issubclass(type(value), Whole):
            return value.rs_exact_double().rs_expression  # type: ignore[no-any-return]
        if type(value) is float and value == value:  # noqa: PLR0124  not for nan
            return literal("double", value)
        if type(value) in (int, bool) and abs(value) <= EXACT_DOUBLE:
            return literal("double", float(value))
        if type(value) in (int, bool):
            self.rs_path.ask(f"{value} is not a double")
        return None

    def rs_compared(self, operation: str, value: Any) -> Any:
        """Fork; a comparison with a double is exact or falls back to Python."""
        if type(value) is float and value != value:  # noqa: PLR0124  nothing equals it
            return False
        return super().rs_compared(operation, value)

    def __bool__(self) -> bool:
        """Fork on zero."""
        return not self.rs_path.fork(call("=", self.rs_expression, literal("double", 0.0)))

    def __neg__(self) -> Real:
        """The negative number."""
        return Real(self.rs_path, call("negative", self.rs_expression))

    def __pos__(self) -> Real:
        """The number itself."""
        return self

    def __abs__(self) -> Real:
        """Without its sign."""
        return Real(self.rs_path, call("abs", self.rs_expression))

    def rs_arithmetic(self, operation: str, other: Any, *, swapped: bool) -> Any:
        """The result of an operation; falls back to Python where it may differ."""
        if operation not in ("+", "-", "*", "/"):
            self.rs_path.ask(f"{operation} of doubles is not known")
        if type(other) is float and other != other:  # noqa: PLR0124  it stays what it is
            return nan() if operation != "/" else self.rs_path.ask("division with nan is not known")
        made = self._real(other)
        if made is None:
            return NotImplemented
        return _calculated(operation, made, self) if swapped else _calculated(operation, self, made)

    def _real(self, value: Any) -> Real | None:
        """The other side of an operation: a whole number is rounded to a double, as Python does it."""
        if issubclass(type(value), Real):
            return value  # type: ignore[no-any-return]
        if issubclass(type(value), Whole):
            return value._double()  # type: ignore[no-any-return]  # noqa: SLF001  its neighbour
        known = self.rs_other(value)
        return None if known is None else Real(self.rs_path, known, finite=math.isfinite(value))


def _calculated(operation: str, left: Real, right: Real) -> Any:
    """A sum, difference, product or quotient: a double, or nan, which needs an infinite number."""
    path, divisor = left.rs_path, right.rs_expression
    if operation == "/" and (
        divisor.value == 0 if isinstance(divisor, Literal) else path.fork(call("=", divisor, literal("double", 0.0)))
    ):
        raise ZeroDivisionError("float division by zero")
    made = call(f"double {operation}", left.rs_expression, divisor)
    finite = left.rs_finite and right.rs_finite
    return nan() if not finite and path.fork(call("is_nan", made)) else Real(path, made)
