"""One way through a function: the truth values that were chosen on it, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from rs_assets.compile.python.tracing.expression import Expression

# How often one path may fork, and how large what it computes may be.
MOST_FORKS, MOST_PARTS = 40, 400


class Ask(BaseException):
    """Something that is not modelled; no `except Exception` may swallow it."""


class RefusedError(Exception):
    """The function cannot be traced at all; `line` is the line of its file."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


class Path:
    """The answers to the questions of one call: first those of `chosen`, then always yes.

    A question is asked once: the next time it has the same answer.
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
        """End this path: its rows go to the real function."""
        self.why = self.why or why
        raise Ask(why)
