"""What a function of a user reads outside of itself: constants, tables, classes, and code of the project's modules."""

from __future__ import annotations

import dis
import functools
import os
import re
import sys
import types
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, EnumType
from pathlib import Path
from typing import Any

from rs_assets.common.loaded import OURS, installed
from rs_assets.topology.user_code.code import (
    FUNCTIONS,
    OUTSIDE,
    PLAIN,
    Function,
    cells,
    code_digest,
    codes,
    digest_of,
    main_name,
    own_digest,
    value_text,
)

# Values that nothing changes once a module is imported; a table is one if its name is that of a constant, or captured.
CONSTANTS = (*PLAIN, tuple, frozenset, date, time, timedelta, tzinfo, Decimal, Enum)
TABLES = (list, dict, set)
# The most items of a table to look at, and the most functions, classes and modules.
MOST_IN_TABLE, MOST_FOLLOWED = 100_000, 200
# In place of the folder of a project, which may be moved.
PROJECT = "<project>"


def whole_digest(function: Function) -> str:
    """`code_digest`, and after OUTSIDE a digest of what the function, and what it calls, reads from the project.

    That is: global constants and tables, captured lists, dicts and sets, functions of other modules of the project, and
    methods and constants of its classes. What other packages have is left out, and so are objects: their attributes may
    change while they are used.
    """
    walk = _Walk(getattr(function, "__module__", None) or type(function).__module__)
    walk.follow(function)
    digest = code_digest(function)
    # One digest without the rest must not look like one with it.
    return f"{digest}{OUTSIDE}{digest_of('|'.join(walk.told))}" if walk.told else digest


class _Walk:
    """Follows what is read, and notes it in `told`; each function and class once."""

    def __init__(self, module: str) -> None:
        self.told: list[str] = []
        self._module = module
        self._known: set[int] = set()

    def follow(self, value: object) -> None:
        """Note what a function, a class or an object that is called reads."""
        if isinstance(value, functools.partial):
            self.follow(value.func)
        elif isinstance(value, types.MethodType):
            self._class(type(value.__self__))
            self.follow(value.__func__)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, FUNCTIONS):
            self._function(value)
        else:
            self._class(type(value))

    def _new(self, value: object) -> bool:
        new = id(value) not in self._known and len(self._known) < MOST_FOLLOWED
        if new:
            self._known.add(id(value))
        return new

    def _function(self, function: Function) -> None:
        self._code(function)
        if hasattr(function, "__wrapped__"):
            self.follow(function.__wrapped__)

    def _code(self, function: Any) -> None:
        """What the code of one function reads: what it has captured, and global names."""
        code = getattr(function, "__code__", None)
        if code is None or not self._new(code):
            return
        for name, value in zip(code.co_freevars, cells(function), strict=False):
            # The digest of the code has captured plain values.
            if not isinstance(value, (*PLAIN, tuple)) and value is not getattr(function, "__wrapped__", None):
                self._read(name, value, function, captured=True)
        names, known = _loaded(code), function.__globals__
        for name in (name for name in names if name in known and not name.startswith("__")):
            value = known[name]
            if isinstance(value, types.ModuleType):
                self._attributes(name, value, names, function)
            else:
                self._read(name, value, function)

    def _attributes(self, name: str, module: types.ModuleType, names: list[str], reader: Any) -> None:
        """What the code reads of a module of the project."""
        if _of_project(module.__name__, reader.__module__):
            for part in (part for part in names if part in vars(module) and not part.startswith("__")):
                self._read(f"{name}.{part}", vars(module)[part], reader)

    def _read(self, name: str, value: Any, reader: Any, *, captured: bool = False) -> None:
        if isinstance(value, FUNCTIONS):
            self._helper(name, value, reader)
        elif isinstance(value, type):
            self._class(value, reader.__module__)
        elif (text := _constant(name, _anywhere(value, reader.__module__), captured=captured)) is not None:
            self.told.append(f"{name}={text}")
        elif not isinstance(value, types.ModuleType):
            self._class(type(value), reader.__module__)

    def _helper(self, name: str, helper: Any, reader: Any) -> None:
        """A function of the project; the digest of the code has those of the reader's own module."""
        inner = helper
        while isinstance(inner, functools.partial):
            inner = inner.func
        module = getattr(inner, "__module__", None) or ""
        if _of_project(module, reader.__module__):
            if module != self._module or inner is not helper:
                self.told.append(f"{name} {code_digest(helper)}")
            self.follow(helper)

    def _class(self, kind: type, reader: str = "") -> None:
        """The methods and the constants of a class of the project, and of its bases."""
        for base in (base for base in kind.__mro__ if _of_project(base.__module__, reader or self._module)):
            if self._new(base):
                self.told.append(f"class {base.__qualname__}")
                for name, value in vars(base).items():
                    self._member(base, name, value)

    def _member(self, kind: type, name: str, value: Any) -> None:
        if isinstance(kind, EnumType) and isinstance(value, Enum):
            self.told.append(f"{name}={_text(value.value)}")
            return
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(function, FUNCTIONS):
            self.told.append(f"{name} {own_digest(function)}")
            self.follow(function)
        elif not name.startswith("__") and (text := _constant(name, _anywhere(value, kind.__module__))) is not None:
            self.told.append(f"{name}={text}")


def _loaded(code: types.CodeType) -> list[str]:
    """The names that code and the code within it read, each once; not those that it assigns itself."""
    every, assigned = [*codes(code)], set()
    for each in every:
        assigned |= {made.argval for made in dis.get_instructions(each) if made.opname == "STORE_GLOBAL"}
    return [name for name in dict.fromkeys(name for each in every for name in each.co_names) if name not in assigned]


def _constant(name: str, value: Any, *, captured: bool = False) -> str | None:
    """The text of a constant; None for anything else.

    >>> _constant("LIMIT", 3), _constant("PAGES", {"b", "a"}), _constant("cache", {}), _constant("lock", object())
    ('3', "{'a', 'b'}", None, None)
    """
    if isinstance(value, re.Pattern):
        return f"{value.pattern!r} {int(value.flags)}"
    if isinstance(value, types.MappingProxyType):
        value, captured = dict(value), True
    # Other libraries have objects that are tuples.
    plain = not isinstance(value, tuple) or type(value) is tuple or hasattr(value, "_fields")
    if (isinstance(value, CONSTANTS) and plain) or _frozen(value):
        return _text(value)
    if type(value) in TABLES and (captured or name.rpartition(".")[2].isupper()):
        return _text(value) if len(value) <= MOST_IN_TABLE else f"{type(value).__name__} of {len(value)}"
    return None


# Attributes of objects may change while they are used, and objects may be linked in any way.
_text = functools.partial(value_text, states=False)


def _anywhere(value: Any, module: str) -> Any:
    """The path of something in the folder of a module's project, as it is in every copy of that; else the value."""
    folder = _folder(module) if type(value) is str else None
    inside = folder is not None and (value == folder or value.startswith(folder + os.sep))
    return f"{PROJECT}{value[len(folder) :]}" if folder is not None and inside else value


def _folder(module: str) -> str | None:
    """The folder from which a module is imported, by its whole name; None for one without a file, or the root."""
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    if not file:
        return None
    name = main_name() if module == "__main__" else module
    up = name.count(".") + hasattr(found, "__path__")
    folder = str(Path(file).parents[up]) if up < len(Path(file).parents) else os.sep
    return folder if folder != os.sep else None


def _frozen(value: object) -> bool:
    """Whether it is an object of a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _of_project(module: str, reader: str) -> bool:
    """Whether a module belongs to the project of the reader's: to its package, or to none that is installed."""
    top = module.partition(".")[0]
    if top == OURS or not top:
        return False
    return top == reader.partition(".")[0] or not installed(top)
