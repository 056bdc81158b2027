"""A piece of Spark SQL with its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATING = frozenset({"float", "double"})


def is_numeric(kind: str | None) -> bool:
    """Whether a Spark type is a number."""
    return kind is not None and (kind in WHOLE or kind in FLOATING or kind.startswith("decimal"))


@dataclass(frozen=True, slots=True)
class Sql:
    """SQL text with its Spark type, None if unknown; `literal` is the source text of a constant."""

    text: str
    kind: str | None
    literal: str | None = None
    quoted: bool = False

    def as_type(self, kind: str | None) -> Sql:
        """Cast to a string if `kind` is a string, else unchanged."""
        if kind != "string" or self.kind == "string":
            return self
        return Sql(f"cast({self.text} as string)", "string")

    @property
    def condition(self) -> str:
        """The value as a condition: false for null; a text is true if it casts to true."""
        made = self.text if self.kind == "boolean" else f"try_cast({self.text} as boolean)"
        return f"coalesce({made}, false)"


def united_types(kinds: Sequence[str | None]) -> str | None:
    """The type that all can be cast to without loss; a string if they have nothing in common; None if unknown.

    >>> united_types(["int", "bigint"]), united_types(["int", "string"]), united_types(["void", "date"])
    ('bigint', 'string', 'date')
    """
    known = list(dict.fromkeys(kind for kind in kinds if kind != "void"))
    if len(known) <= 1:
        return known[0] if known else "string"
    if any(kind is None for kind in known):
        return None
    if all(kind in WHOLE for kind in known):
        return "bigint" if "bigint" in known else "int" if "int" in known else "smallint"
    if all(is_numeric(kind) for kind in known):
        return "double" if FLOATING & set(known) else None
    return "string"
