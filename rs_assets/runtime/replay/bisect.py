"""Finding what makes a whole fail by trying its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Part = TypeVar("Part")
Error = TypeVar("Error")


def culprits(
    whole: Part, fails: Callable[[Part], Error | None], halves: Callable[[Part], tuple[Part, Part] | None]
) -> Iterator[tuple[Part, Error]]:
    """The smallest parts of `whole` that fail by themselves, in order, each with its error.

    `fails` tries a part, `halves` cuts it in two (None: it is one piece). Where the left half runs through, the right
    one must be to blame and is not tried as a whole, so that one culprit among n pieces costs about log2(n) trials. A
    whole that fails though each of its pieces runs through has no culprit. After each culprit the whole is tried again:
    `fails` may leave out what was found, and then nothing more need be looked at once the rest runs through.

    >>> def fails(numbers):
    ...     return "seven" if 7 in numbers else None
    >>> def halves(numbers):
    ...     middle = len(numbers) // 2
    ...     return (numbers[:middle], numbers[middle:]) if middle else None
    >>> list(culprits(range(10), fails, halves))
    [(range(7, 8), 'seven')]
    """
    error = fails(whole)
    # What is still to be looked into: it is known to fail, or must be by what its other half did, or is unknown.
    waiting: list[tuple[Part, Error | None, bool]] = [(whole, error, True)] if error is not None else []
    while waiting:
        part, error, to_blame = waiting.pop()
        parts = halves(part)
        if error is None and (parts is None or not to_blame):
            error = fails(part)
            if error is None:
                continue
        if parts is None:
            assert error is not None  # noqa: S101  tried above
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
