"""Objects of JSON in files that people write or correct: one in each line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

# How much of a line an error shows, in characters.
SHOWN: Final = 100


def object_of(text: str) -> dict[str, Any]:
    """The object that a text is; ValueError says why it is not one.

    >>> object_of('{"id": 1}')
    {'id': 1}
    >>> object_of("[1]")
    Traceback (most recent call last):
    ValueError: [1] is not an object
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        line = f" of line {error.lineno}" if error.lineno > 1 else ""
        raise ValueError(f"{error.msg} at column {error.colno}{line}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{text[:SHOWN]} is not an object")  # noqa: TRY004  the text is wrong, not its type
    return found


def objects_in(text: str, unread: Callable[[int, str], Exception]) -> list[dict[str, Any]]:
    r"""The objects of the lines; `unread` makes the error for a line, by its number from 1, and what is wrong.

    >>> objects_in('{"id": 1}\n\n{"id": 2}\n', lambda line, why: ValueError(f"{line}: {why}"))
    [{'id': 1}, {'id': 2}]
    """
    found = []
    # A text may hold characters that count as ends of lines elsewhere.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(object_of(line))
            except ValueError as error:
                raise unread(number, str(error)) from error
    return found
