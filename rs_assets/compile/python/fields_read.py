"""Finds the fields of a record that a function reads, by its bytecode."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any

from rs_assets.compile.python.tracing.code import ATTRIBUTES, instructions

# Names by which code may inspect all of its variables.
LOOKING = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "breakpoint", "set_trace"})
LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW"})
# The instructions of one read: the record, the name, and the operation.
READ = 3


def fields_read(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The fields that `function` reads of its record; None if it may do anything else with it.

    It recognises `record["name"]` and `record.get("name")`, in functions that pass the record to no other code: then a
    dict of those fields alone will do. The answer is None for everything that is not certain, in this version of Python
    or another.

    >>> fields_read(lambda record: record["page"] == "/" and record.get("ms", 0) > 5)
    ('page', 'ms')
    >>> fields_read(lambda record: len(record)) is None
    True
    """
    code = function.__code__ if isinstance(function, types.FunctionType) else None
    if code is None or not code.co_argcount:
        return None
    record = code.co_varnames[0]
    if record in code.co_cellvars or LOOKING & set(code.co_names):
        return None
    steps = instructions(code)
    found: dict[str, None] = {}
    for number, step in enumerate(steps):
        if not _names(step, record):
            continue
        field = _field(steps[number : number + READ])
        if field is None:
            return None
        found[field] = None
    return tuple(found)


def _names(step: dis.Instruction, record: str) -> bool:
    """Whether an instruction uses the variable; some use two."""
    if step.opname in {"LOAD_CONST", "LOAD_GLOBAL", *ATTRIBUTES}:
        return False
    return bool(step.argval == record) or (isinstance(step.argval, tuple) and record in step.argval)


def _field(steps: list[dis.Instruction]) -> str | None:
    """The field that is read by instructions that begin with loading the record."""
    if len(steps) < READ or steps[0].opname not in LOADS:
        return None
    _, second, third = steps
    if second.opname == "LOAD_CONST":
        subscript = third.opname == "BINARY_SUBSCR" or (third.opname, third.argrepr) == ("BINARY_OP", "[]")
        return second.argval if subscript and isinstance(second.argval, str) else None
    # Only a method that is called at once; its first argument comes next.
    called = second.opname == "LOAD_METHOD" or "NULL|self" in second.argrepr
    name = third.argval if third.opname == "LOAD_CONST" else None
    return name if called and second.argval == "get" and isinstance(name, str) else None
