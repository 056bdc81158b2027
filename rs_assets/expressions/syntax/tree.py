"""Syntax trees of values and calls: frozen, each with its position in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word: a field, or the word itself if there is no such field."""

    name: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    text: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, as its digits."""

    digits: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function's name, as it was written, and its arguments."""

    name: str
    arguments: tuple[Value, ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two values: ==, !=, >, >=, < or <=."""

    operator: str
    left: Value
    right: Value
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Both:
    """Conditions joined by `&` (all of them) or `|` (any of them)."""

    operator: str
    parts: tuple[Value, ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Value
    at: int = field(default=0, compare=False)


Value = Word | Text | Number | Call | Compare | Both | Not


def words_in(value: Value) -> Iterator[str]:
    """The bare words in a value."""
    match value:
        case Word(name):
            yield name
        case Call(_, parts) | Both(_, parts):
            for part in parts:
                yield from words_in(part)
        case Compare(_, left, right):
            yield from words_in(left)
            yield from words_in(right)
        case Not(part):
            yield from words_in(part)


def text_of(quoted: str) -> str:
    r"""The text between quotes, where a backslash escapes a quote.

    >>> print(text_of(r"'it\'s a\d'"))
    it's a\d
    """
    inner = quoted[1:-1]
    for quote in (quoted[0], quoted[-1]):
        inner = inner.replace(f"\\{quote}", quote)
    return inner
