"""Finds the failing parts of a whole by bisection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Part = TypeVar("Part")
Error = TypeVar("Error")


def culprits(
    whole: Part, fails: Callable[[Part], Error | None], halves: Callable[[Part], tuple[Part, Part] | None]
) -> Iterator[tuple[Part, Error]]:
    """The smallest parts of `whole` that fail by themselves, in order, each with its error.

    `fails` tries a part, `halves` splits it in two (None: it is a single piece). If the left half succeeds, the right
    one must be to blame and is not tried as a whole, so one culprit among n pieces costs about log2(n) trials. A whole
    that fails although each of its pieces succeeds has no culprit. After each culprit the whole is tried again: `fails`
    may leave out the culprits found, and the search ends when the rest succeeds.

    >>> def fails(numbers):
    ...     return "seven" if 7 in numbers else None
    >>> def halves(numbers):
    ...     middle = len(numbers) // 2
    ...     return (numbers[:middle], numbers[middle:]) if middle else None
    >>> list(culprits(range(10), fails, halves))
    [(range(7, 8), 'seven')]
    """
    error = fails(whole)
    # Parts to examine: known to fail, or to blame because the other half succeeded, or unknown.
    waiting: list[tuple[Part, Error | None, bool]] = [(whole, error, True)] if error is not None else []
    while waiting:
        part, error, to_blame = waiting.pop()
        parts = halves(part)
        if error is None and (parts is None or not to_blame):
            error = fails(part)
            if error is None:
                continue
        if parts is None:
            assert error is not None  # tried above
            yield part, error
            if waiting and fails(whole) is None:
                return
            continue
        left, right = parts
        error = fails(left)
        if error is None:
            waiting.append((right, None, True))
        else:
            waiting += [(right, None, False), (left, error, True)]
