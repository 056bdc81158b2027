"""Long sequences in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def in_chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in order, `size` at a time; the last part may be shorter. No part if there are no items.

    >>> [*in_chunks("abcde", 2)]
    ['ab', 'cd', 'e']
    """
    return (items[first : first + size] for first in range(0, len(items), size))
