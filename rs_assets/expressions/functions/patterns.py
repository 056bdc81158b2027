"""Checks Java regular expressions without Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from rs_assets.errors import TopologyError

# Escapes besides those of non-alphabetic characters: single characters, and escapes only allowed outside of classes.
_CHARACTER = (
    r"[tnrfae]|0(?:[0-3][0-7]{1,2}|[0-7]{1,2})|x[0-9a-fA-F]{2}|x\{0*(?:10|[0-9a-fA-F])?[0-9a-fA-F]{1,4}\}|u[0-9a-fA-F]{4}"
    r"|c.|[^A-Za-z0-9]"
)
_MANY = r"[dDhHsSvVwW]|[pP](?:[LMNPSZC]|\{(?P<property>[A-Za-z0-9_=]+)\})"
_ESCAPED = re.compile(rf"\\(?:(?P<one>{_CHARACTER})|{_MANY})", re.DOTALL)
_OUTSIDE = re.compile(rf"\\(?:{_CHARACTER}|{_MANY}|[bBAGzZRX]|[1-9]|k<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>)", re.DOTALL)
_OPENING = re.compile(
    r"\((?:\?(?:[:=!>]|<[=!]|<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>|[idmsuxU]*(?:-[idmsuxU]+)?[:)])|(?!\?))"
)
_REPEAT = re.compile(r"(?:[*+?]|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})[?+]?")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)|\\.", re.DOTALL)

# The names of character classes that every Java version knows.
_CATEGORY = re.compile(
    r"(?:Is)?(?:[LMNZCPS]|C[ncfos]|L[ultmo]|M[nec]|N[dlo]|Z[slp]|P[dsecoif]|S[mcko]|LC|LD)"
    r"|Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|Space"
    r"|Is(?:Alphabetic|Ideographic|Letter|Lowercase|Uppercase|Titlecase|Punctuation|Control|White_Space|Digit|Hex_Digit"
    r"|Assigned|Latin|Greek|Cyrillic|Han|Hiragana|Katakana|Hangul|Arabic|Hebrew|Thai|Devanagari|Armenian|Georgian)"
)


def fault_of(pattern: str) -> str | None:
    r"""The error of Java's `Pattern` for `pattern`, None if it is valid.

    TopologyError for a character class that not every Java version knows.

    >>> fault_of("foo(.*?)(bar)"), fault_of("("), fault_of("*a"), fault_of("a{,3}")
    (None, "'(' is not closed", "'*' repeats nothing", "'{' repeats nothing")
    >>> fault_of("[?&]id="), fault_of("[a-z&&[^b]]"), fault_of("[z-a]")
    (None, None, "'z-a' is not a range")
    """
    try:
        _Reader(unquoted(pattern)).read()
    except _Fault as fault:
        return str(fault)
    return None


def groups_of(pattern: str) -> int:
    r"""The number of groups of a valid pattern.

    >>> groups_of(r"(a)(?:b)\((?<year>[(]c)")
    2
    """
    reader = _Reader(unquoted(pattern))
    reader.read()
    return reader.groups


def named_groups(pattern: str) -> Mapping[str, int]:
    r"""The numbers of the groups with names of a valid pattern.

    >>> dict(named_groups(r"(a)(?<year>[(]c)"))
    {'year': 2}
    """
    reader = _Reader(unquoted(pattern))
    reader.read()
    return MappingProxyType(reader.names)


def unquoted(pattern: str) -> str:
    r"""The pattern with the text between \Q and \E escaped by backslashes."""

    def plain(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else re.sub(r"([^\w]|_)", r"\\\1", found[1], flags=re.ASCII)

    return _QUOTED.sub(plain, pattern)


class _Fault(ValueError):
    """What is wrong with a pattern."""


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.groups = 0
        self.names: dict[str, int] = {}
        self.open: list[str] = []

    def read(self) -> None:
        """Reads the whole pattern; _Fault if it is wrong."""
        repeatable = False
        while self.at < len(self.pattern):
            sign = self.pattern[self.at]
            if sign in "*+?{":
                self._repeat(repeatable)
                repeatable = False
                continue
            repeatable = sign not in "(|"
            if sign == "(":
                self._open()
            elif sign == "[":
                self._class()
            elif sign == "\\":
                self._escaped(_OUTSIDE)
            else:
                self.at += 1
                if sign == ")":
                    self._close()
        if self.open:
            raise _Fault("'(' is not closed")

    def _repeat(self, repeatable: bool) -> None:  # noqa: FBT001
        found = _REPEAT.match(self.pattern, self.at)
        if found is None or not repeatable:
            raise _Fault(f"{self.pattern[self.at]!r} repeats nothing")
        endless = found[0][0] in "*+" or found["most"] == ""
        if endless and self.pattern[self.at - 1] == ")" and {"(?<=", "(?<!"} & set(self.open):
            raise _Fault("a lookbehind repeats a group without a limit")
        if found["most"] and int(found["least"]) > int(found["most"]):
            raise _Fault(f"{found[0]!r} repeats from more to less")
        self.at = found.end()

    def _close(self) -> None:
        if not self.open:
            raise _Fault("')' closes nothing")
        self.open.pop()

    def _open(self) -> None:
        found = _OPENING.match(self.pattern, self.at)
        if found is None:
            raise _Fault(f"{self.pattern[self.at : self.at + 3]!r} is not valid in a pattern")
        name = found["name"]
        if name in self.names:
            raise _Fault(f"duplicate group name {name!r}")
        self.groups += found[0] == "(" or name is not None
        if name:
            self.names[name] = self.groups
        self.at = found.end()
        # Flags alone open no group.
        if not found[0].endswith(")"):
            self.open.append(found[0])

    def _escaped(self, known: re.Pattern[str]) -> str | None:
        """The escaped character, None if the escape means several characters or a position."""
        found = known.match(self.pattern, self.at)
        if found is None:
            raise _Fault(f"{self.pattern[self.at : self.at + 2]!r} is not valid in a pattern")
        groups = found.groupdict()
        if groups["property"] and not _CATEGORY.fullmatch(groups["property"]):
            raise TopologyError(
                f"the pattern has {found[0]!r}, a character class that not every Java version knows",
                remedy=r"write one of \p{L}, \p{Lu}, \p{Nd}, \p{Punct}, \p{IsLatin}..., or the characters: [a-z]",
            )
        if groups.get("group") and groups["group"] not in self.names:
            raise _Fault(f"there is no previous group {groups['group']!r}")
        self.at = found.end()
        one = groups.get("one")
        return _meant(one) if one else None

    def _class(self) -> None:
        """A character class, with nested classes, ranges and `&&`."""
        begin = self.at
        self.at += 2 if self.pattern.startswith("[^", begin) else 1
        first = self.at
        while self.at < len(self.pattern):
            if self.pattern[self.at] == "]" and self.at > first:
                self.at += 1
                return
            if self.pattern[self.at] == "[":
                self._class()
            elif self.pattern.startswith("&&", self.at):
                self._intersection(first)
            else:
                self._range()
        raise _Fault(f"{self.pattern[begin : begin + 2]!r} is not closed")

    def _intersection(self, first: int) -> None:
        if self.at == first or self.pattern[self.at + 2 : self.at + 3] in ("", "]", "&"):
            raise _Fault("'&&' joins nothing")
        self.at += 2

    def _range(self) -> None:
        begin = self.at
        low = self._one()
        rest = self.pattern[self.at : self.at + 2]
        if low is None or rest[:1] != "-" or rest[1:] in ("", "]", "["):
            return
        self.at += 1
        high = self._one()
        if high is None or high < low:
            raise _Fault(f"{self.pattern[begin : self.at]!r} is not a range")

    def _one(self) -> str | None:
        if self.pattern[self.at] == "\\":
            return self._escaped(_ESCAPED)
        self.at += 1
        return self.pattern[self.at - 1]


def _meant(escaped: str) -> str:
    """The escaped character."""
    kind, digits = escaped[0], escaped[1:].strip("{}")
    if kind in "xu" and digits:
        return chr(int(digits, 16))
    if kind == "0" and digits:
        return chr(int(digits, 8))
    if kind == "c" and digits:
        return chr(ord(digits) ^ 64)
    return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}.get(kind, kind)
