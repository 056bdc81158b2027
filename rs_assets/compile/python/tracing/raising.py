"""Exceptions of a traced function that the function raises for the real record, too."""

from __future__ import annotations

import re

# What Python says of an operation with None that no value allows. The other side may be a constant or a proxy, whose
# operations are those of its type; a text before % may have a place for None.
_NONE, _OTHER = "'NoneType'", "'(?:NoneType|bool|int|float|str|Text|Whole|Real)'"
_PAIR = f"(?:{_NONE} and {_OTHER}|{_OTHER} and {_NONE})"
_REFUSED = re.compile(
    rf"'[<>]=?' not supported between instances of {_PAIR}"
    rf"|unsupported operand type\(s\) for (?:[-+*/]|//)=?: {_PAIR}"
    rf"|unsupported operand type\(s\) for %=?: {_NONE} and {_OTHER}"
    r"|can only concatenate str \(not \"NoneType\"\) to str"
    rf"|bad operand type for (?:unary [-+]|abs\(\)): {_NONE}"
    rf"|{_NONE} object is not (?:subscriptable|iterable|callable)"
    rf"|object of type {_NONE} has no len\(\)"
    rf"|argument of type {_NONE} is not iterable"
)


def certain(error: BaseException) -> bool:
    """Whether the real function raises as well, because a value is None: another value never has this error.

    Any other exception may come from a proxy that C code does not take for the value which it represents.

    >>> def error_of(function):
    ...     try:
    ...         function()
    ...     except Exception as error:
    ...         return error
    >>> certain(error_of(lambda: None + 1)), certain(error_of(lambda: None.lower())), certain(error_of(lambda: "a" + 1))
    (True, True, False)
    """
    if isinstance(error, AttributeError):
        return error.obj is None and error.name is not None
    return type(error) is TypeError and _REFUSED.fullmatch(str(error)) is not None
