"""Copies a function with proxies for everything outside of it but constants."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.compile.python.tracing.code import (
    asked_for,
    check_code,
    compares_by_is,
    is_returned,
    is_spread,
    members_in,
)
from rs_assets.compile.python.tracing.members import PLAIN, Choice, Members
from rs_assets.compile.python.tracing.path import Path, RefusedError
from rs_assets.compile.python.tracing.texts import Text
from rs_assets.compile.python.tracing.values import Opaque, Unknown, is_value

# The most functions that may be called, and the longest range.
MOST_FUNCTIONS, LONGEST_RANGE = 30, 200
# Functions that only compare, and so work on proxies as on real values.
SAFE = (str, int, float, bool, bytes, tuple, list, dict, abs, min, max, any, all, sorted, enumerate, zip, reversed)
ERRORS = (Exception, ValueError, TypeError, KeyError, IndexError, ArithmeticError, ZeroDivisionError, RuntimeError)
BUILTINS: Mapping[str, Any] = MappingProxyType({each.__name__: each for each in (*SAFE, *ERRORS)})


class ProxyFactory:
    """Copies of functions for one trace; `path` is the path of the current call."""

    def __init__(self) -> None:
        self.path = Path(())
        self._codes: dict[int, types.CodeType] = {}
        self._copies: dict[int, Callable[..., Any]] = {}
        self._own = {"len": self._len, "isinstance": self._isinstance, "range": self._range}

    def copy(self, function: object) -> Callable[..., Any]:
        """A copy of `function` with proxies; RefusedError if its code might have side effects."""
        if type(function) is not types.FunctionType:
            raise RefusedError(f"a {type(function).__name__} is not a plain function")
        known = self._copies.get(id(function))
        if known is not None:
            return known
        if len(self._copies) >= MOST_FUNCTIONS:
            raise RefusedError(f"it may call more than {MOST_FUNCTIONS} functions")
        code = function.__code__
        check_code(code)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if type(value) not in PLAIN:
                raise RefusedError("a default value is not a constant", code.co_firstlineno)
        cells = tuple(types.CellType() for _ in code.co_freevars)
        outside: dict[str, Any] = {"__builtins__": {}}
        made = types.FunctionType(self._code(code), outside, code.co_name, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        # Registered before its callees are copied, which may call it.
        self._copies[id(function)] = made
        outside |= self._globals(function)
        self._fill(cells, function)
        return made

    def hands_on(self, frame: types.FrameType | None) -> bool:
        """Whether `frame` takes a record into a dict whose fields nothing compares by `is`, which no proxy answers."""
        if frame is None or not is_spread(frame.f_code, frame.f_lasti):
            return False
        if not any(map(compares_by_is, self._codes.values())):
            return True
        outer = frame.f_back
        while outer is not None and not self.has(outer.f_code):
            outer = outer.f_back
        return outer is None and is_returned(frame.f_code, frame.f_lasti)

    def has(self, code: types.CodeType) -> bool:
        """Whether `code` belongs to a copy."""
        return id(code) in self._codes

    def _code(self, code: types.CodeType) -> types.CodeType:
        behind_in = members_in(code)
        constants = tuple(self._constant(value, number in behind_in) for number, value in enumerate(code.co_consts))
        made = code.replace(co_consts=constants)
        self._codes[id(made)] = made
        return made

    def _constant(self, value: Any, behind_in: bool) -> Any:  # noqa: FBT001  of one place among constants
        if isinstance(value, types.CodeType):
            return self._code(value)
        if type(value) is frozenset:
            return self._choice(value, "a set")
        return Members(value) if behind_in and type(value) is tuple else value

    def _globals(self, function: types.FunctionType) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name in asked_for(function.__code__):
            if name in function.__globals__:
                made[name] = self._proxy(function.__globals__[name], name)
            elif name in self._own or name in BUILTINS:
                made[name] = self._own.get(name) or BUILTINS[name]
            elif hasattr(builtins, name):
                made[name] = self._unknown(f"{name}() is not known")
        return made

    def _fill(self, cells: tuple[types.CellType, ...], function: types.FunctionType) -> None:
        for name, made, cell in zip(function.__code__.co_freevars, cells, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                raise RefusedError(f"{name} has no value yet", function.__code__.co_firstlineno) from None
            made.cell_contents = self._proxy(value, name)

    def _proxy(self, value: Any, name: str) -> Any:
        """The proxy for `value`, which the function finds outside of itself under `name`."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is tuple and all(type(each) in PLAIN for each in value):
            return Members(value)
        if kind is frozenset:
            return self._choice(value, name)
        if kind is types.FunctionType:
            return self.copy(value)
        if any(value is each for each in BUILTINS.values()):
            return value
        may_change = f"{name} is a {kind.__name__}, which may change; a tuple or frozenset may not"
        return self._unknown(may_change if kind in (list, dict, set) else f"{name} is not known")

    def _choice(self, value: frozenset[Any], name: str) -> Any:
        unknown = self._unknown(f"{name} can be traced after 'in' only")
        return Choice(value, unknown) if all(type(each) in PLAIN for each in value) else unknown

    def _unknown(self, why: str) -> Unknown:
        return Unknown(lambda: self.path, why)

    def _len(self, value: Any) -> Any:
        return value.rs_length() if issubclass(type(value), Text) else len(value)

    def _isinstance(self, value: Any, kinds: Any) -> bool:
        if issubclass(type(value), Opaque) or issubclass(type(value), Unknown):
            self.path.ask("the type of such a value is not known")
        wanted = kinds if type(kinds) is tuple else (kinds,)
        if not all(each in BUILTINS.values() or each is type(None) for each in wanted if isinstance(each, type)):
            self.path.ask("such a type is not known")
        if type(value).__module__.startswith(__name__.rpartition(".")[0]) and not is_value(value):
            self.path.ask("the type of such a value is not known")
        return any(issubclass(value.rs_python if is_value(value) else type(value), each) for each in wanted)

    def _range(self, *bounds: Any) -> range:
        made = range(*bounds)
        if len(made) > LONGEST_RANGE:
            self.path.ask(f"a loop of more than {LONGEST_RANGE} iterations")
        return made
