"""Single tokens of SQL: as words, and others in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


def word(token: Token | None) -> str:
    """A token as a keyword or a sign, in upper case; empty for texts, quoted names and the end."""
    if token is None or token.token_type.name in ("STRING", "IDENTIFIER"):
        return ""
    return " ".join(token.text.upper().split())


def like(token: Token, kind: str, text: str) -> Token:
    """Another token at the position of `token`."""
    from sqlglot.tokenizer_core import Token, TokenType

    return Token(TokenType[kind], text, token.line, token.col, token.start, token.end)


def as_interval(tokens: Sequence[Token]) -> list[Token]:
    """`tokens` with the word INTERVAL before them, which EMIT WITH DELAY '10' SECOND omits."""
    if not tokens or word(tokens[0]) == "INTERVAL":
        return list(tokens)
    return [like(tokens[0], "INTERVAL", "INTERVAL"), *tokens]
