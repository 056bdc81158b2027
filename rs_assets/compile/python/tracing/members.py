"""Constants after `in`: membership is one question, not one for each constant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rs_assets.compile.python.tracing.expression import GREATEST, LEAST, call, whole
from rs_assets.compile.python.tracing.numeric import Whole
from rs_assets.compile.python.tracing.path import MOST_PARTS
from rs_assets.compile.python.tracing.texts import Text
from rs_assets.compile.python.tracing.values import Unknown, is_value

# Constants of these types have the same value everywhere.
PLAIN = (str, int, float, bool, bytes, type(None))
# Those of them that never equal a text or a whole number.
NO_TEXT = (int, float, bool, bytes, type(None))
NO_NUMBER = (str, bytes, type(None))


class Members(tuple[Any, ...]):
    """A tuple of constants."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        """Membership by one question, if that is enough."""
        found = asked_at_once(value, self)
        return super().__contains__(value) if found is None else found


class Choice:
    """A frozenset of constants. Its order differs between processes, so that code must not depend on it."""

    __slots__ = ("rs_unknown", "rs_values")

    def __init__(self, values: frozenset[Any], unknown: Unknown) -> None:
        self.rs_values = values
        self.rs_unknown = unknown

    def __contains__(self, value: object) -> bool:
        """One question."""
        found = asked_at_once(value, self.rs_values)
        if found is not None:
            return found
        return value in self.rs_values if type(value) in PLAIN else bool(self.rs_unknown)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rs_values)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.rs_values)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Any:
        """Ask."""
        return self.rs_unknown()

    def __eq__(self, other: object) -> bool:
        """Ask."""
        return bool(self.rs_unknown)

    def __getattr__(self, name: str) -> Any:
        """Ask."""
        return getattr(self.rs_unknown, name)

    def __or__(self, other: object) -> Any:
        """Ask."""
        return self.rs_unknown()

    __and__ = __sub__ = __xor__ = __lt__ = __le__ = __gt__ = __ge__ = __or__
    __ror__ = __rand__ = __rsub__ = __rxor__ = __repr__ = __or__  # type: ignore[assignment]


def asked_at_once(value: object, members: Collection[Any]) -> bool | None:
    """Whether `value` equals one of `members`, by one question; None if it is neither text nor a whole number."""
    if len(members) >= MOST_PARTS and is_value(value):
        value.rs_path.ask("so many members are for Python")  # type: ignore[attr-defined]
    if issubclass(type(value), Text) and all(type(m) is str or type(m) in NO_TEXT for m in members):
        known = [value.rs_constant(m) for m in members if type(m) is str]  # type: ignore[attr-defined]
    elif issubclass(type(value), Whole) and all(type(m) in (int, bool, *NO_NUMBER) for m in members):
        numbers = [int(m) for m in members if type(m) in (int, bool)]
        known = [whole(n) for n in sorted(set(numbers)) if LEAST <= n <= GREATEST]
    else:
        return None
    if not known:
        return False
    return bool(value.rs_path.fork(call("in", value.rs_expression, *sorted(known, key=str))))  # type: ignore[attr-defined]
