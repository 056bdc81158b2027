"""Whether a function only computes, so that one call for each distinct value of its fields does as well as many."""

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
from rs_assets.compile.python.tracing.stand_ins import ERRORS, MOST_FUNCTIONS, SAFE

# Beside what a traced function may do: to catch errors, and to make sets.
ALLOWED = KNOWN | GENERATING | {"PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "BUILD_SET", "SET_ADD", "SET_UPDATE"}
# Of each module, what returns the same for the same arguments and does nothing else.
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
# By their identity: not everything that a function finds outside of itself has a hash.
PURE = frozenset(
    id(each) for each in (*SAFE, *ERRORS, *(getattr(module, name) for module, names in NAMES.items() for name in names))
)
# Is no constant.
MISSING = object()
CONSTANTS = (*PLAIN, re.Pattern, re.RegexFlag)
VALUES = (str, int, float, bytes, list, dict, tuple, set, re.Match, re.Pattern, parse.SplitResult, parse.ParseResult)
# What values have, and how functions of modules are reached. Others could be a user's own, which remember something.
MEMBERS = frozenset(
    name
    for names in (*NAMES.values(), *map(dir, (*VALUES, hashlib.sha256())), ["parse"])
    for name in names
    if not name.startswith("_")
)


def is_pure(function: Callable[..., Any]) -> bool:
    """Whether `function` and the functions that it calls only compute, as far as their code tells.

    Known are operators, methods of its values, the functions in NAMES, and constants. What is not known for sure is not
    pure.

    >>> is_pure(lambda record: json.loads(record["body"])["kind"] == "view")
    True
    >>> seen = []
    >>> is_pure(lambda record: seen.append(record["page"]))
    False
    """
    return _Look().passes(function)


class _Look:
    """Looks through a function, and through each that it calls once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def passes(self, function: object) -> bool:
        """Whether a function only computes, or is looked at already."""
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
        """Whether what is loaded from outside of the function is constant or pure."""
        value, after = _found(function, steps[at].argval), at + 1
        while isinstance(value, types.ModuleType) and steps[after].opname in ATTRIBUTES:
            # What is not there yet stays so: some modules import more when they are asked.
            value, after = vars(value).get(steps[after].argval, MISSING), after + 1
        return id(value) in PURE or _is_constant(value) or self.passes(value)


def _only_computes(step: dis.Instruction, outside: Collection[str]) -> bool:
    """Whether an instruction changes nothing that is there behind the call."""
    if step.opname in ATTRIBUTES:
        return step.argval in MEMBERS
    known = step.opname in ALLOWED or step.opname.startswith(JUMPS)
    return known and not (step.opname == "STORE_DEREF" and step.argval in outside)


def _found(function: types.FunctionType, name: str) -> Any:
    """What a name means in a function; MISSING if it means nothing yet."""
    if name not in function.__code__.co_freevars:
        return function.__globals__.get(name, vars(builtins).get(name, MISSING))
    try:
        return (function.__closure__ or ())[function.__code__.co_freevars.index(name)].cell_contents
    except ValueError:
        return MISSING


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if type(value) in (tuple, frozenset) else type(value) in CONSTANTS
