"""Inspects a function's bytecode before it is called: it must not have effects outside of itself."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType

from rs_assets.compile.python.tracing.path import RefusedError

# Instructions of Python 3.11 to 3.13 that use nothing but the function's own values. All others are refused.
KNOWN = frozenset(
    # ruff: noqa: SIM905  a list of words
    """
    RESUME NOP CACHE EXTENDED_ARG PRECALL CALL CALL_KW KW_NAMES CALL_FUNCTION_EX PUSH_NULL POP_TOP COPY SWAP
    LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST STORE_FAST STORE_FAST_LOAD_FAST
    STORE_FAST_STORE_FAST DELETE_FAST LOAD_GLOBAL LOAD_DEREF LOAD_CLOSURE STORE_DEREF MAKE_CELL COPY_FREE_VARS
    MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE LOAD_ATTR LOAD_METHOD BINARY_OP BINARY_SUBSCR BINARY_SLICE BUILD_SLICE
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING LIST_APPEND LIST_EXTEND LIST_TO_TUPLE MAP_ADD
    DICT_UPDATE DICT_MERGE STORE_SUBSCR DELETE_SUBSCR UNPACK_SEQUENCE FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC
    CONVERT_VALUE UNARY_NOT UNARY_NEGATIVE UNARY_POSITIVE COMPARE_OP CONTAINS_OP IS_OP TO_BOOL JUMP_FORWARD
    JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP GET_ITER FOR_ITER END_FOR
    RETURN_VALUE RETURN_CONST RAISE_VARARGS LOAD_ASSERTION_ERROR
    """.split()
)
# Of a generator expression; elsewhere they make a generator.
GENERATING = frozenset({"RETURN_GENERATOR", "YIELD_VALUE", "CALL_INTRINSIC_1", "RERAISE"})
# Instructions by which comprehensions of Python 3.12 restore a hidden variable.
RESTORING = frozenset({"RERAISE", "CALL_INTRINSIC_1"})
JUMPS = "POP_JUMP_"
ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# Instructions that push nothing, and those that push one value for what they take off the stack.
TAKING: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "nothing": frozenset(
            """
            NOP RESUME PRECALL KW_NAMES POP_TOP JUMP_FORWARD STORE_FAST STORE_DEREF STORE_SUBSCR DELETE_SUBSCR MAP_ADD
            DICT_UPDATE DICT_MERGE LIST_APPEND LIST_EXTEND
            """.split()
        ),
        "one": frozenset(
            """
            BINARY_OP BINARY_SUBSCR BINARY_SLICE BUILD_SLICE BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP
            BUILD_STRING LIST_TO_TUPLE FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE UNARY_NOT
            UNARY_NEGATIVE UNARY_POSITIVE COMPARE_OP CONTAINS_OP IS_OP TO_BOOL CALL CALL_KW CALL_FUNCTION_EX
            """.split()
        ),
    }
)
# Descriptions of other instructions.
MEANS = {
    "PUSH_EXC_INFO": "try or with",
    "BEFORE_WITH": "with",
    "IMPORT_NAME": "an import",
    "STORE_GLOBAL": "it sets a global",
    "DELETE_GLOBAL": "it sets a global",
    "STORE_ATTR": "it sets an attribute",
    "DELETE_ATTR": "it sets an attribute",
    "BUILD_SET": "a set, which can be traced after 'in' only",
    "RETURN_GENERATOR": "a generator",
    "MATCH_MAPPING": "a match of patterns",
    "MATCH_CLASS": "a match of patterns",
}
# Operators by which one line may run for ever.
GROWING = ("**", "<<")
ONLY = (None, True, False)
# The most bytes of code of one function: some 500 lines. Longer functions take seconds to inspect.
LONGEST_CODE = 20_000


def check_code(code: types.CodeType) -> None:
    """RefusedError if `code`, or code inside it, might do anything but compute."""
    outside = frozenset(code.co_freevars)
    for each in parts_of(code):
        if len(each.co_code) > LONGEST_CODE:
            raise RefusedError("it is too long", each.co_firstlineno)
        _check(each, outside)


def parts_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """`code` and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from parts_of(constant)


def instructions(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of `code`, without cache entries and extended arguments."""
    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]


def _check(code: types.CodeType, outside: frozenset[str]) -> None:
    generating = code.co_name == "<genexpr>"
    before: dis.Instruction | None = None
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = step.positions.lineno or line if step.positions else line
        name = step.opname
        known = name in KNOWN or name.startswith(JUMPS) or name in (GENERATING if generating else RESTORING)
        if not known:
            raise RefusedError(MEANS.get(name, f"the instruction {name} is not known"), line)
        if name == "IS_OP" and not _with_only(step, before):
            raise RefusedError("'is' is known for None, True and False", line)
        if name == "BINARY_OP" and step.argrepr.rstrip("=") in GROWING:
            raise RefusedError(f"{step.argrepr} may take any time", line)
        if name == "STORE_DEREF" and step.argval in outside:
            raise RefusedError("it sets a variable outside of the function", line)
        if name in ATTRIBUTES and str(step.argval).startswith(("_", "rs_")):
            raise RefusedError(f"it uses .{step.argval}", line)
        before = step


def _with_only(step: dis.Instruction, before: dis.Instruction | None) -> bool:
    """Whether `is` compares with one of ONLY. After a jump it may be another value, as in `is (x or None)`."""
    known = before is not None and before.opname == "LOAD_CONST" and _is_only(before.argval)
    return known and not step.is_jump_target


def _is_only(value: object) -> bool:
    return any(value is each for each in ONLY)


def compares_by_is(code: types.CodeType) -> bool:
    """Whether `code` compares anything by `is`."""
    return any(step.opname == "IS_OP" or "_NONE" in step.opname for step in instructions(code))


def is_spread(code: types.CodeType, offset: int) -> bool:
    """Whether the instruction at `offset` is the one of `{**record}`."""
    step = next((step for step in instructions(code) if step.offset == offset), None)
    return step is not None and (step.opname, step.arg) == ("DICT_UPDATE", 1)


def is_returned(code: types.CodeType, offset: int) -> bool:
    """Whether the dict to which the instruction at `offset` adds is returned, and nothing looks at it before.

    Follows how many values are on the stack above the dict, from one instruction to the next. False for everything that
    is not certain.
    """
    # `above` is None where no instruction before leads to the next one but by a jump.
    above: int | None = 0
    depths: dict[int, int] = {}
    returned = False
    for step in (step for step in instructions(code) if step.offset > offset):
        there = depths.get(step.offset, above)
        if there is None:
            continue
        if step.opname == "RETURN_VALUE":
            returned, above = True, None
            if there:
                return False
            continue
        taken = _taken(step)
        backwards = "JUMP" in step.opname and step.argval <= step.offset
        if taken is None or taken > there or above not in (None, there) or backwards:
            return False
        if "JUMP" in step.opname:
            depths[step.argval] = there + _effect(step, jumps=True)
        above = None if step.opname == "JUMP_FORWARD" else there + _effect(step, jumps=False)
    return returned


def _taken(step: dis.Instruction) -> int | None:
    """How many values an instruction takes off the stack, or looks at there; None if that is not known."""
    name = step.opname
    if name in ATTRIBUTES or name.startswith("JUMP_IF_"):
        return 1
    if name.startswith("LOAD_") or name == "PUSH_NULL":
        return 0
    if name in ("COPY", "SWAP"):
        return step.arg
    if name in TAKING["nothing"] or name.startswith(JUMPS):
        return -_effect(step, jumps=False)
    return 1 - _effect(step, jumps=False) if name in TAKING["one"] else None


def _effect(step: dis.Instruction, *, jumps: bool) -> int:
    argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(step.opcode, argument, jump=jumps)


def asked_for(code: types.CodeType) -> frozenset[str]:
    """The global names that `code`, or code inside it, loads."""
    return frozenset(
        step.argval for each in parts_of(code) for step in dis.get_instructions(each) if step.opname == "LOAD_GLOBAL"
    )


def members_in(code: types.CodeType) -> frozenset[int]:
    """The indexes of tuple constants that follow `in`."""
    steps = list(dis.get_instructions(code))
    behind_in = (a for a, b in pairwise(steps) if b.opname == "CONTAINS_OP")
    return frozenset(a.arg for a in behind_in if a.opname == "LOAD_CONST" and a.arg is not None)
