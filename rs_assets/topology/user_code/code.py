"""A digest of a function's code, equal in every process: it identifies the code that state was made with."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeGuard

# Between the digest of a function's own code and that of the rest: helpers, keyword defaults, bound objects.
REST = "+"
# Before the digest of what a function reads outside of itself.
OUTSIDE = "^"
# Before the digest of what is called as a function and is none.
HELD = "~"
_WITH_REST = re.compile(r"\b([0-9a-f]{16})\+[0-9a-f]{16}\b")
_WITH_OUTSIDE = re.compile(r"\b([0-9a-f]{16})\^[0-9a-f]{16}\b")
_WITH_HELD = re.compile(r"\b([0-9a-f]{16})~[0-9a-f]{16}\b")
# The repr of an object without a repr of its own.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# The most functions to follow, the depth of nested values, and the most items of an object to look at.
MOST_FUNCTIONS, DEEPEST, MOST_ITEMS = 100, 10, 1000
PLAIN = (str, int, float, bool, bytes, types.NoneType)
NUMBERS = (int, float, complex)
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, functools._lru_cache_wrapper)  # noqa: SLF001

Function = Callable[..., Any]


def code_digest(function: Function) -> str:
    """A short digest of `function`: its code, constants, names, defaults and captured plain values.

    After REST follows a second digest, of what the function depends on: defaults of keyword-only arguments, functions
    that it captures or that its code names in its own module (and theirs, up to MOST_FUNCTIONS), decorators that keep
    `__wrapped__`, arguments of a partial, and the attributes of the object whose method or `__call__` it is. What it
    reads outside of itself is in `whole_digest`.

    It changes when the code changes; it may also change with the Python version.
    """
    rest = list(_rest(function, _Seen(function)))
    own = own_digest(function)
    return f"{own}{REST}{digest_of('|'.join(rest))}" if rest else own


def same_code(stored: str, now: str) -> bool:
    """Whether two identities are equal. One that was stored without the later digests is compared without them.

    >>> same_code("0123456789abcdef page string", "0123456789abcdef+fedcba9876543210 page string")
    True
    >>> same_code("0123456789abcdef+0000000000000000", "0123456789abcdef+fedcba9876543210")
    False
    >>> same_code("0123456789abcdef+0000000000000000", "0123456789abcdef+0000000000000000^1111111111111111")
    True
    """
    told = [now]
    for later in (_WITH_OUTSIDE, _WITH_HELD, _WITH_REST):
        told.append(later.sub(r"\1", told[-1]))
    return stored in told


class _Seen:
    """The functions that a digest has followed, by identity."""

    def __init__(self, first: Function) -> None:
        self._known = {id(_code_of(first)): first}

    def new(self, function: Function) -> bool:
        """Whether to follow `function`: each one once, and not too many."""
        key = id(_code_of(function) or function)
        if key in self._known or len(self._known) >= MOST_FUNCTIONS:
            return False
        self._known[key] = function
        return True


def own_digest(function: Function) -> str:
    """A digest of the code of one function, its constants, names, defaults and captured plain values."""
    digest = hashlib.sha256()
    code = _code_of(function)
    if code is None:
        digest.update(_type_name(type(function)).encode())
    else:
        _feed(digest, code)
        digest.update(value_text(getattr(function, "__defaults__", None)).encode())
        digest.update(f"[{', '.join(map(_captured, cells(function)))}]".encode())
    return digest.hexdigest()[:16]


def _rest(function: Function, seen: _Seen) -> Iterator[str]:
    """The texts of what belongs to `function` besides its own code."""
    if isinstance(function, functools.partial):
        yield f"partial {value_text(function.args)} {value_text(dict(sorted(function.keywords.items())))}"
        yield from _followed(function.func, seen, always=True)
        return
    bound = getattr(function, "__self__", None)
    if isinstance(function, types.MethodType):
        yield f"bound {_state(bound)}"
        function = function.__func__
    elif _code_of(function) is None and not isinstance(function, types.BuiltinFunctionType | type):
        yield f"object {_state(function)}"
        yield from _followed(type(function).__call__, seen)
        return
    for wrapper in _wrappers(function):
        yield f"wrapper {_own_code(wrapper)}"
        yield from _around(wrapper, seen)
    yield from _around(inspect.unwrap(function), seen)


def _around(function: Function, seen: _Seen) -> Iterator[str]:
    """The dependencies of one function: keyword defaults, captured functions, helpers of its module."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    keywords = getattr(function, "__kwdefaults__", None)
    if keywords:
        yield f"keywords {value_text(dict(sorted(keywords.items())))}"
    wrapped = getattr(function, "__wrapped__", None)
    for value in cells(function):
        if _is_function(value) and value is not wrapped:
            yield from _followed(value, seen)
    for name in (name for each in codes(code) for name in each.co_names):
        helper = getattr(function, "__globals__", {}).get(name)
        if _is_function(helper) and getattr(helper, "__module__", None) == function.__module__:
            yield from _followed(helper, seen)


def _followed(function: Function, seen: _Seen, *, always: bool = False) -> Iterator[str]:
    if seen.new(function) or always:
        yield f"{getattr(function, '__qualname__', '')} {own_digest(function)}"
        yield from _rest(function, seen)


def _is_function(value: object) -> TypeGuard[Function]:
    return isinstance(value, FUNCTIONS)


def _code_of(function: Function) -> types.CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None)


def _wrappers(function: Function) -> Iterator[Function]:
    while hasattr(function, "__wrapped__"):
        yield function
        function = function.__wrapped__


def _own_code(function: Function) -> str:
    """The digest of a decorator's own code, whatever it wraps."""
    digest, code = hashlib.sha256(), getattr(function, "__code__", None)
    if code is None:
        return _type_name(type(function))
    _feed(digest, code)
    return digest.hexdigest()[:16]


def cells(function: Function) -> Iterator[object]:
    """The values that a function has captured; None for one that has none yet."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None


def _captured(value: object) -> str:
    """Plain values by their text, all others by their type."""
    return value_text(value) if isinstance(value, (*PLAIN, tuple)) else repr(type(value).__name__)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and the code within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def _state(value: object) -> str:
    """The type and the attributes of an object."""
    attributes = getattr(value, "__dict__", {})
    told = {name: short_text(attribute) for name, attribute in sorted(attributes.items())}
    return f"{_type_name(type(value))} {told}"


def short_text(value: object, depth: int = 0) -> str:
    """`value_text`, but for collections of many items only their number."""
    if isinstance(value, list | dict | set | frozenset | tuple) and len(value) > MOST_ITEMS:
        return f"{type(value).__name__} of {len(value)}"
    return value_text(value, depth)


def _feed(digest: Any, code: types.CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed(digest, constant)
        else:
            digest.update(value_text(constant).encode())


def value_text(value: object, depth: int = 0, *, states: bool = True) -> str:
    """`repr(value)` where it is the same in every process, else a text that is.

    Of an object without a `repr` of its own it is the class, and with `states` the attributes.
    """
    inner = functools.partial(value_text, depth=depth + 1, states=states)
    if depth > DEEPEST:
        return _type_name(type(value))
    told = TEXTS.get(type(value))
    if told is not None:
        return told(value, inner)
    if is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.repr:  # type: ignore[attr-defined]
        parts = (f"{of.name}={inner(getattr(value, of.name, None))}" for of in fields(value) if of.repr)
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if _is_function(value):
        return f"function {own_digest(value)}"
    return _repr_text(value, inner, states=states)


def _repr_text(value: object, inner: Callable[[object], str], *, states: bool) -> str:
    """`repr(value)`, with stable texts of its parts, and of its state instead of an address."""
    try:
        text = repr(value)
        if _ADDRESS.search(text):
            return f"{_type_name(type(value))} {_short_state(value, inner) if states else ''}"
        form = next((form for form in FORMS if form(value, repr) == text), None)
        told = form(value, inner) if form is not None else None
    except Exception:  # noqa: BLE001  an object of the user's
        return _type_name(type(value))
    return text if told is None else told


def _short_state(value: object, inner: Callable[[object], str]) -> str:
    attributes = sorted(getattr(value, "__dict__", {}).items())
    return ", ".join(f"{name}={inner(attribute)}" for name, attribute in attributes)


def _set_text(value: set[object] | frozenset[object], inner: Callable[[object], str]) -> str:
    """Sets of numbers have a stable order; the order of texts depends on the process's hash seed."""
    if all(isinstance(item, NUMBERS) for item in value):
        return repr(value)
    items = f"{{{', '.join(sorted(map(inner, value)))}}}"
    return items if type(value) is set else f"frozenset({items})"


TEXTS: Mapping[type, Callable[[Any, Callable[[object], str]], str]] = {
    tuple: lambda value, inner: f"({', '.join(map(inner, value))}{',' * (len(value) == 1)})",
    list: lambda value, inner: f"[{', '.join(map(inner, value))}]",
    dict: lambda value, inner: f"{{{', '.join(f'{inner(k)}: {inner(v)}' for k, v in value.items())}}}",
    set: _set_text,
    frozenset: _set_text,
}


def _named_text(value: Any, inner: Callable[[object], str]) -> str | None:
    """The text of a named tuple, whose `repr` has those of its parts."""
    if not isinstance(value, tuple) or not hasattr(value, "_fields"):
        return None
    parts = (f"{name}={inner(part)}" for name, part in zip(value._fields, value, strict=True))
    return f"{type(value).__name__}({', '.join(parts)})"


def _member_text(value: Any, inner: Callable[[object], str]) -> str | None:
    """The text of a member of an enum."""
    return f"<{type(value).__name__}.{value.name}: {inner(value.value)}>" if isinstance(value, Enum) else None


def _kind_text(value: Any, inner: Callable[[object], str]) -> str | None:
    """The text of a class; `inner` is `repr`, or not, as for those of parts."""
    if not isinstance(value, type):
        return None
    return f"<class '{value.__module__}.{value.__qualname__}'>" if inner is repr else f"<class '{_type_name(value)}'>"


# Texts that are as `repr`, but for their parts.
FORMS = (_named_text, _member_text, _kind_text)


def _type_name(kind: type) -> str:
    return f"{main_name() if kind.__module__ == '__main__' else kind.__module__}.{kind.__qualname__}"


def main_name() -> str:
    """The name by which others import the module that runs as a program."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else Path(file).stem if file else "__main__"


def digest_of(text: str) -> str:
    """16 digits for any text."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
