"""Proxies for text. Spark's strings of the default collation compare as Python's do."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from rs_assets.compile.python.tracing.expression import Expression, call, text, whole
from rs_assets.compile.python.tracing.numeric import Whole
from rs_assets.compile.python.tracing.values import Value

# The longest string.
LONGEST = 2**31 - 1


class Text(Value):
    """A string that is not null."""

    __slots__ = ()
    rs_python = str
    rs_called = "text"

    def rs_other(self, value: Any) -> Expression | None:
        """Text, or a constant."""
        if issubclass(type(value), Text):
            return value.rs_expression  # type: ignore[no-any-return]
        return self.rs_constant(value) if type(value) is str else None

    def rs_constant(self, value: str) -> Expression:
        """A text constant; falls back to Python if no string of Spark can hold it."""
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            self.rs_path.ask("Spark cannot hold text with a lone surrogate")
        return text(value)

    def _made(self, operation: str, *parts: Expression) -> Text:
        return Text(self.rs_path, call(operation, self.rs_expression, *parts))

    def __bool__(self) -> bool:
        """Fork on the empty text."""
        return not self.rs_path.fork(call("=", self.rs_expression, text("")))

    def __contains__(self, part: Any) -> bool:
        """Fork."""
        other = self.rs_other(part)
        if other is None:
            raise TypeError("'in <string>' requires string as left operand")
        return self.rs_path.fork(call("contains", self.rs_expression, other))

    def __add__(self, end: Any) -> Any:
        """Concatenate both."""
        other = self.rs_other(end)
        return NotImplemented if other is None else self._made("concat", other)

    def __radd__(self, start: Any) -> Any:
        """Concatenate both."""
        other = self.rs_other(start)
        return NotImplemented if other is None else Text(self.rs_path, call("concat", other, self.rs_expression))

    def startswith(self, prefix: Any, *bounds: Any) -> bool:
        """Fork; the members of a tuple are asked one by one."""
        return self._affix("starts", prefix, bounds)

    def endswith(self, suffix: Any, *bounds: Any) -> bool:
        """Fork; the members of a tuple are asked one by one."""
        return self._affix("ends", suffix, bounds)

    def _affix(self, operation: str, affix: Any, bounds: tuple[Any, ...]) -> bool:
        if bounds:
            self.rs_path.ask("startswith and endswith with a start position are not known")
        if isinstance(affix, tuple):
            return any(self._affix(operation, self._no_tuple(each), ()) for each in affix)
        other = self.rs_other(affix)
        if other is None:
            raise TypeError("the affix must be str or a tuple of str")
        return self.rs_path.fork(call(operation, self.rs_expression, other))

    def _no_tuple(self, affix: Any) -> Any:
        if isinstance(affix, tuple):
            raise TypeError("a tuple of affixes must only contain str")
        return affix

    def lower(self) -> Text:
        """In lower case; only ASCII, because the rules for other characters differ between versions of Unicode."""
        self._ascii()
        return self._made("lower")

    def upper(self) -> Text:
        """In upper case; only ASCII."""
        self._ascii()
        return self._made("upper")

    def _ascii(self) -> None:
        octets, chars = call("octets", self.rs_expression), call("length", self.rs_expression)
        if not self.rs_path.fork(call("=", octets, chars)):
            self.rs_path.ask("only ASCII characters are made small or large in a plan")

    def strip(self, chars: Any = None) -> Text:
        """Without `chars` at both ends."""
        return self._stripped("trim", chars)

    def lstrip(self, chars: Any = None) -> Text:
        """Without `chars` at the start."""
        return self._stripped("trim_start", chars)

    def rstrip(self, chars: Any = None) -> Text:
        """Without `chars` at the end."""
        return self._stripped("trim_end", chars)

    def _stripped(self, operation: str, chars: Any) -> Text:
        wanted = _blanks() if chars is None else chars
        if type(wanted) is not str:
            self.rs_path.ask("strip takes constants only in a plan")
        return self._made(operation, self.rs_constant(wanted)) if wanted else self

    def replace(self, old: Any, new: Any, *count: Any) -> Text:
        """With `new` for each `old`."""
        if count or type(old) is not str or type(new) is not str or not old:
            self.rs_path.ask("replace takes two constants in a plan, the first not empty")
        return self._made("replace", self.rs_constant(old), self.rs_constant(new))

    def removeprefix(self, prefix: Any) -> Text:
        """Fork; without `prefix`, if the text begins with it."""
        if type(prefix) is not str:
            self.rs_path.ask("removeprefix takes constants only in a plan")
        return self[len(prefix) :] if self.startswith(prefix) else self  # noqa: FURB188  this is how it is done

    def __getitem__(self, place: Any) -> Text:
        """A part; a single character only where there is one."""
        if type(place) is int and 0 <= place < LONGEST:
            if not self.rs_path.fork(call("<", whole(place), self.rs_length().rs_expression)):
                raise IndexError("string index out of range")
            return self._made("substring", whole(place + 1), whole(1))
        if type(place) is not slice or place.step is not None:
            self.rs_path.ask("such a part of text is not known")
        start = 0 if place.start is None else place.start
        stop = LONGEST if place.stop is None else place.stop
        if type(start) is not int or type(stop) is not int or abs(start) >= LONGEST or abs(stop) > LONGEST:
            self.rs_path.ask("the bounds of a part of text must be constants in a plan")
        return self._part(start, stop, ends=place.stop is None)

    def _part(self, start: int, stop: int, *, ends: bool) -> Text:
        if start >= 0 and stop >= 0:
            return self._made("substring", whole(start + 1), whole(max(stop - start, 0)))
        if start < 0 and ends:
            return self._made("substring", whole(start), whole(LONGEST))
        if start != 0:
            self.rs_path.ask("such a part of text is not known")
        return self._made("substring", whole(1), (self.rs_length() + stop).rs_expression)

    def rs_length(self) -> Whole:
        """The number of characters."""
        return Whole(self.rs_path, call("length", self.rs_expression), 0, LONGEST)


@cache
def _blanks() -> str:
    """Python's white space."""
    return "".join(chr(number) for number in range(sys.maxunicode + 1) if chr(number).isspace())
