"""Values of expressions: Spark SQL text with its type, and its role in event time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from rs_assets.records.types import Type

_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`", re.DOTALL)
# Roles of values: event time, processing time, the bounds of a window, and its last instant.
Role = Literal["", "rowtime", "proctime", "start", "end", "last"]
BOUNDS: Final[tuple[Role, ...]] = ("start", "end", "last")


@dataclass(frozen=True, slots=True)
class Value:
    """Spark SQL text that can be an operand; `type` is None if only Spark knows it."""

    text: str
    type: Type | None = None
    role: Role = ""

    @property
    def field(self) -> str | None:
        """The name of an unchanged field; None if it is computed.

        >>> Value("`price`").field
        'price'
        """
        inner = self.text[1:-1]
        whole = self.text.startswith("`") and self.text.endswith("`") and "`" not in inner.replace("``", "")
        return inner.replace("``", "`") if whole and inner else None

    @property
    def plain(self) -> str:
        """The text without its outer brackets."""
        if not (self.text.startswith("(") and self.text.endswith(")")):
            return self.text
        inner = self.text[1:-1]
        return inner if _balanced(inner) else self.text


def _balanced(text: str) -> bool:
    """Whether each closing bracket in `text` was opened in it; quoted brackets are ignored."""
    depth = 0
    for piece in _QUOTED.sub("", text):
        depth += (piece == "(") - (piece == ")")
        if depth < 0:
            return False
    return depth == 0
