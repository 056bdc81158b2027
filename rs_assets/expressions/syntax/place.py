"""Errors that show the position of a fault in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rs_assets.common.plural import count_of
from rs_assets.errors import TopologyError

if TYPE_CHECKING:
    from lark import Lark

# Larger texts are not written by people, and trees are walked by recursion.
DEEPEST, LONGEST = 100, 100_000
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
# Names of the grammar tokens in errors.
TOKEN_NAMES = {"LPAR": "'('", "RPAR": "')'", "COMMA": "','", "BARE": "a name or value", "QUOTED": "a text in quotes"}
TOKEN_NAMES |= {
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "$END": "the end",
    "BANG": "'!'",
    "NAME": "a name",
    "NUMBER": "a number",
}
TOKEN_NAMES |= {"LBRACE": "'{'", "RBRACE": "'}'", "SEMICOLON": "';'", "ASSIGN": "'='", "COMPARE": "a comparison"}
TOKEN_NAMES |= {
    "OPERATOR": "a function",
    "AND": "'&&'",
    "OR": "'||'",
    "IF": "'if'",
    "ELSE": "'else'",
    "ELSEIF": "'elseif'",
}


class LanguageError(TopologyError):
    """A text that cannot be parsed, or that uses something unknown; `line` and `column` are the position."""

    def __init__(self, what: str, text: str, at: int, *, remedy: str = "", step: str | None = None) -> None:
        before = text[:at]
        self.line = before.count("\n") + 1
        self.column = at - (before.rfind("\n") + 1) + 1
        shown = text.split("\n")[self.line - 1]
        start = max(0, self.column - 61)
        self.picture = f"    {shown[start : start + 120]}\n    {' ' * (self.column - 1 - start)}^"
        super().__init__(f"line {self.line}, column {self.column}: {what}", remedy=remedy, step=step)

    def __str__(self) -> str:
        """The fault, the line with a mark below the position, and the remedy."""
        first, *rest = super().__str__().split("\n  remedy: ", 1)
        return "\n".join([first, self.picture, *(f"  remedy: {each}" for each in rest)])


def read(parser: Lark, text: str, made: Callable[[Any], Any], *, what: str) -> Any:
    """Parses `text` with `parser` and converts it with `made`; LanguageError shows where parsing failed."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

    if not text.strip():
        raise LanguageError(f"the {what} is empty", text, 0)
    _check_size(text, what)
    try:
        return made(parser.parse(text))
    except UnexpectedToken as error:
        at = len(text) if error.token.type == "$END" else error.token.start_pos or 0
        found = "the end" if error.token.type == "$END" else repr(str(error.token))
        raise _syntax_error(found, text, at, error.accepts or error.expected) from None
    except UnexpectedCharacters as error:
        raise _syntax_error(repr(error.char), text, error.pos_in_stream or 0, error.allowed) from None
    except (UnexpectedEOF, UnexpectedInput):
        raise LanguageError("something is missing at the end", text, len(text)) from None


def _syntax_error(found: str, text: str, at: int, expected: Any) -> LanguageError:
    rest = text[at:]
    if rest[:1] in {"'", '"'} and not _QUOTED.match(rest):
        return LanguageError("the quote is not closed", text, at, remedy="close it, and write an inner quote as \\'")
    wanted = sorted({TOKEN_NAMES.get(name, name) for name in expected or ()})
    balance = _brackets(text)
    hint = ""
    if balance > 0:
        hint = f"; {count_of(balance, 'bracket')} not closed"
    elif balance < 0:
        hint = f"; {count_of(-balance, 'closing bracket')} too many"
    return LanguageError(f"{found} is not allowed here{hint}", text, at, remedy=f"expected {' or '.join(wanted)}")


def _brackets(text: str) -> int:
    plain = _QUOTED.sub("", text)
    return plain.count("(") - plain.count(")")


def _check_size(text: str, what: str) -> None:
    if len(text) > LONGEST:
        raise LanguageError(f"the {what} has more than {LONGEST} characters", text, LONGEST, remedy="split it")
    plain = _QUOTED.sub(lambda m: "_" * len(m[0]), text)
    depth = 0
    signs = re.search(rf"(?:!\s*){{{DEEPEST},}}", plain)
    if signs is not None:
        raise LanguageError(f"more than {DEEPEST} signs ! in a row", text, signs.start(), remedy="write one or none")
    for found in re.finditer(r"[({]|[)}]", plain):
        depth += 1 if found[0] in "({" else -1
        if depth > DEEPEST:
            raise LanguageError(f"brackets are nested more than {DEEPEST} deep", text, found.start(), remedy="split it")
