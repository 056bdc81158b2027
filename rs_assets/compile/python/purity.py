"""Decides whether a function is pure, so that one call for each distinct value of its fields is enough."""

from __future__ import annotations

import base64
import builtins
import dis
import hashlib
import html
import json
import math
import re
import types
import unicodedata
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any
from urllib import parse

from rs_assets.compile.python.tracing.code import ATTRIBUTES, GENERATING, JUMPS, KNOWN, instructions, parts_of
from rs_assets.compile.python.tracing.members import PLAIN
from rs_assets.compile.python.tracing.proxies import ERRORS, MOST_FUNCTIONS, SAFE

# The instructions allowed besides those of traced functions: to catch errors, and to make sets.
ALLOWED = KNOWN | GENERATING | {"PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "BUILD_SET", "SET_ADD", "SET_UPDATE"}
# The pure functions of each module: the same result for the same arguments, and no side effect.
NAMES: Mapping[types.ModuleType, Collection[str]] = MappingProxyType(
    {
        base64: ("b64decode", "b64encode", "urlsafe_b64decode", "urlsafe_b64encode", "b32decode", "b32encode"),
        builtins: (
            *("len", "sum", "round", "divmod", "range", "isinstance", "repr", "ascii", "chr", "ord", "format", "hex"),
            *("set", "frozenset", "filter", "map", "slice"),
        ),
        hashlib: ("blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"),
        html: ("escape", "unescape"),
        json: ("dumps", "loads", "JSONDecodeError"),
        math: [name for name in vars(math) if not name.startswith("_")],
        parse: (
            *("parse_qs", "parse_qsl", "quote", "quote_plus", "unquote", "unquote_plus"),
            *("urljoin", "urlparse", "urlsplit"),
        ),
        re: (
            *("compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"),
            *("A", "ASCII", "I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE"),
        ),
        unicodedata: ("category", "name", "normalize", "numeric", "decimal", "digit"),
    }
)  # fmt: skip
# Compared by identity: not all globals of a function are hashable.
PURE = frozenset(
    id(each) for each in (*SAFE, *ERRORS, *(getattr(module, name) for module, names in NAMES.items() for name in names))
)
# The value of an undefined name.
MISSING = object()
CONSTANTS = (*PLAIN, re.Pattern, re.RegexFlag)
VALUES = (str, int, float, bytes, list, dict, tuple, set, re.Match, re.Pattern, parse.SplitResult, parse.ParseResult)
# The attributes of values, and of modules. Others could belong to user classes, which may have state.
MEMBERS = frozenset(
    name
    for names in (*NAMES.values(), *map(dir, (*VALUES, hashlib.sha256())), ["parse"])
    for name in names
    if not name.startswith("_")
)


def is_pure(function: Callable[..., Any]) -> bool:
    """Whether `function` and the functions that it calls are pure, as far as their code shows.

    It recognises operators, methods of its values, the functions in NAMES, and constants. Everything else counts as
    impure.

    >>> is_pure(lambda record: json.loads(record["body"])["kind"] == "view")
    True
    >>> seen = []
    >>> is_pure(lambda record: seen.append(record["page"]))
    False
    """
    return _Look().passes(function)


class _Look:
    """Inspects a function, and each function that it calls once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def passes(self, function: object) -> bool:
        """Whether a function is pure, or is being inspected already."""
        if type(function) is not types.FunctionType or len(self._seen) >= MOST_FUNCTIONS:
            return False
        if id(function) in self._seen:
            return True
        self._seen.add(id(function))
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        return all(map(_is_constant, defaults)) and all(
            self._part_passes(function, part) for part in parts_of(function.__code__)
        )

    def _part_passes(self, function: types.FunctionType, code: types.CodeType) -> bool:
        steps = instructions(code)
        outside = function.__code__.co_freevars
        return all(_only_computes(step, outside) for step in steps) and all(
            self._may_load(function, steps, at)
            for at, step in enumerate(steps)
            if step.opname == "LOAD_GLOBAL" or (step.opname == "LOAD_DEREF" and step.argval in outside)
        )

    def _may_load(self, function: types.FunctionType, steps: list[dis.Instruction], at: int) -> bool:
        """Whether a value from outside of the function is constant or pure."""
        value, after = _found(function, steps[at].argval), at + 1
        while isinstance(value, types.ModuleType) and steps[after].opname in ATTRIBUTES:
            # An undefined name counts as missing: some modules import more on access.
            value, after = vars(value).get(steps[after].argval, MISSING), after + 1
        return id(value) in PURE or _is_constant(value) or self.passes(value)


def _only_computes(step: dis.Instruction, outside: Collection[str]) -> bool:
    """Whether an instruction has no effect outside of the call."""
    if step.opname in ATTRIBUTES:
        return step.argval in MEMBERS
    known = step.opname in ALLOWED or step.opname.startswith(JUMPS)
    return known and not (step.opname == "STORE_DEREF" and step.argval in outside)


def _found(function: types.FunctionType, name: str) -> Any:
    """The value of a name in a function; MISSING if it has none yet."""
    if name not in function.__code__.co_freevars:
        return function.__globals__.get(name, vars(builtins).get(name, MISSING))
    try:
        return (function.__closure__ or ())[function.__code__.co_freevars.index(name)].cell_contents
    except ValueError:
        return MISSING


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if type(value) in (tuple, frozenset) else type(value) in CONSTANTS
