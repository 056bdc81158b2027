"""Clauses of JSON functions, which are words between brackets: each becomes one more argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rs_assets.sql.read.token import like, word

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

# The functions that have clauses, and the words that begin one.
CLAUSES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "JSON_VALUE": frozenset({"RETURNING", "NULL", "ERROR", "DEFAULT"}),
        "JSON_EXISTS": frozenset({"TRUE", "FALSE", "UNKNOWN", "ERROR"}),
        "JSON_QUERY": frozenset({"RETURNING", "NULL", "ERROR", "EMPTY", "WITH", "WITHOUT"}),
        "JSON_OBJECT": frozenset({"NULL", "ABSENT"}),
        "JSON_ARRAY": frozenset({"NULL", "ABSENT"}),
    }
)
# The names of the arguments: no name of a function has a blank.
RETURNING, WRAPPER, ON, DEFAULT = "JSON RETURNING", "JSON WRAPPER", "JSON ON", "JSON DEFAULT"
MOST_WORDS: Final = 16
MARKS: Final = frozenset({RETURNING, WRAPPER, ON, DEFAULT})


def clause_at(tokens: Sequence[Token], call: str) -> tuple[str, int]:
    """The name of the clause of `call` that begins with `tokens`, and of how many words it consists; none: '', 0.

    Of a default these are the words before its expression.
    """
    words = [word(token) for token in tokens] + [""] * MOST_WORDS
    if words[0] not in CLAUSES.get(call, ()):
        return "", 0
    if words[0] in ("WITH", "WITHOUT"):
        ends = next((place for place, each in enumerate(words[:4]) if each == "WRAPPER"), 0)
        return (WRAPPER, ends + 1) if ends else ("", 0)
    if words[0] == "RETURNING":
        return RETURNING, _type_ends(words)
    if words[0] == "DEFAULT":
        return DEFAULT, 1
    of = 2 if words[0] == "EMPTY" else 1
    return (ON, of + 2) if words[of] == "ON" else ("", 0)


def between_members(here: str, before: str, behind: str) -> str:
    """What a word or a sign of a member of JSON_OBJECT is: 'key' is left out, 'value' is a comma, '' stays.

    >>> between_members("KEY", "(", ""), between_members("VALUE", "", "N"), between_members("VALUE", ",", ")")
    ('key', 'value', '')
    """
    begins = before in ("(", ",")
    if here == "KEY" and begins and behind not in ("VALUE", ":", ","):
        return "key"
    return "value" if here in ("VALUE", ":") and not begins else ""


def _type_ends(words: Sequence[str]) -> int:
    """The place of the first word after a type, which may have brackets."""
    depth = 0
    for place, each in enumerate(words[2:], start=2):
        depth += each.count("(") - each.count(")") + each.count("<") - each.count(">")
        if depth < 0 or (depth == 0 and each not in (")", ">")):
            return place
    return len(words)


def opening(name: str, at: Token) -> list[Token]:
    """The begin of one more argument, which is a call."""
    return [like(at, "COMMA", ","), like(at, "VAR", name), like(at, "L_PAREN", "(")]


def argument(name: str, words: Sequence[Token]) -> list[Token]:
    """The words of a clause as an argument that is a call with one text."""
    said = like(words[0], "STRING", " ".join(map(word, words)))
    return [*opening(name, words[0]), said, like(words[-1], "R_PAREN", ")")]
