"""One path through a function: the truth values chosen on it, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from rs_assets.compile.python.tracing.expression import Expression

# The most forks of one path, and the largest expressions.
MOST_FORKS, MOST_PARTS = 40, 400


class Ask(BaseException):
    """The function does something that is not modelled; not an Exception, so that traced code cannot swallow it."""


class RefusedError(Exception):
    """The function cannot be traced at all; `line` is the line of its file."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


class Path:
    """The answers to the questions of one call: first those of `chosen`, then always yes.

    A question is asked once: a repeated question gets the same answer.
    """

    def __init__(self, chosen: Sequence[bool]) -> None:
        self.chosen = chosen
        self.forks: list[tuple[Expression, bool]] = []
        self.why = ""
        self._known: dict[Expression, bool] = {}

    def fork(self, condition: Expression) -> bool:
        """Whether `condition`, which is not null on this path, is true on it."""
        if condition in self._known:
            return self._known[condition]
        number = len(self.forks)
        if number >= MOST_FORKS:
            self.ask("it asks too many questions of one record")
        if condition.size > MOST_PARTS:
            self.ask("it computes too much")
        taken = self.chosen[number] if number < len(self.chosen) else True
        self.forks.append((condition, taken))
        self._known[condition] = taken
        return taken

    def ask(self, why: str) -> NoReturn:
        """End this path: its rows fall back to the real function."""
        self.why = self.why or why
        raise Ask(why)
