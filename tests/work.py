"""How much a function does, as a count: a clock judges the machine, a count judges the code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def calls_of(function: Callable[[], T]) -> tuple[T, int]:
    """Run `function`; return its value and the number of calls that it made, of Python and of C, in this thread."""
    count = 0

    def counted(_frame: FrameType, event: str, _given: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        value = function()
    finally:
        sys.setprofile(before)
    return value, count
