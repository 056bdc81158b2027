"""A position in a list of tokens, with methods to read from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rs_assets.errors import SqlError
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.statements import Word
from rs_assets.sql.read.token import word

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

OPENING, CLOSING = ("(", "[", "<"), (")", "]", ">")


class Cursor:
    """Reads tokens in order; words are keywords or signs in upper case, separated by blanks."""

    def __init__(self, text: Text, tokens: Sequence[Token]) -> None:
        self.text, self.tokens, self.place = text, tokens, 0

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one `ahead` of it; None at the end."""
        return self.tokens[self.place + ahead] if self.place + ahead < len(self.tokens) else None

    def word(self) -> str:
        """The next token as a keyword."""
        return word(self.peek())

    @property
    def start(self) -> int:
        """The offset of the next token; the end of the text after the last one."""
        token = self.peek()
        return token.start if token is not None else len(self.text.sql.rstrip())

    @property
    def before(self) -> int:
        """The offset of the previous token."""
        return self.tokens[self.place - 1].start

    def at(self, words: str) -> int:
        """How many tokens make up `words` here, 0 if they do not follow: sqlglot joins some words and splits others."""
        wanted, joined, ahead = words.split(), list[str](), 0
        while len(joined) < len(wanted) and (found := word(self.peek(ahead))):
            joined += found.split()
            ahead += 1
        return ahead if joined == wanted else 0

    def take(self, words: str) -> bool:
        """Skips `words` if they follow, and says whether they did."""
        number = self.at(words)
        self.place += number
        return number > 0

    def need(self, words: str, remedy: str = "") -> None:
        """Skips `words`; SqlError if something else follows."""
        if not self.take(words):
            raise self.error(f"expected {words}, found {self.shown()}", remedy=remedy)

    def shown(self) -> str:
        """The source text of the next token."""
        token = self.peek()
        return repr(self.text.sql[token.start : token.end + 1]) if token is not None else "the end"

    def error(self, what: str, *, remedy: str = "") -> SqlError:
        """The error at the next token."""
        return self.text.error(what, self.start, remedy=remedy)

    def name(self, what: str = "a column") -> Word:
        """A name, with all parts of a dotted name."""
        token = self.peek()
        plain = word(token).replace("_", "a").isalnum() and not word(token)[:1].isdigit()
        if token is None or not (plain or token.token_type.name == "IDENTIFIER"):
            raise self.error(f"expected the name of {what}, found {self.shown()}")
        self.place += 1
        return Word(token.text, token.start)

    def names(self) -> tuple[Word, ...]:
        """Names in brackets."""
        self.need("(")
        made = [self.name()]
        while self.take(","):
            made.append(self.name())
        self.need(")")
        return tuple(made)

    def string(self, what: str) -> Word:
        """A text in quotes."""
        token = self.peek()
        if token is None or token.token_type.name != "STRING":
            raise self.error(f"expected {what} in single quotes, found {self.shown()}", remedy="write it as 'text'")
        self.place += 1
        return Word(token.text, token.start)

    def option_key(self) -> Word:
        """The key of an option: quoted, or a dotted name."""
        token = self.peek()
        if token is not None and token.token_type.name == "STRING":
            return self.string("the key")
        made = self.name("an option")
        while self.take(".") or self.take("-"):
            made = Word(f"{made.text}{word(self.tokens[self.place - 1])}{self.name('an option').text}", made.start)
        return made

    def until(self, *words: str) -> Sequence[Token]:
        """The tokens up to one of `words` outside of brackets, a closing bracket, or the end of the statement."""
        begin, depth = self.place, 0
        while (token := self.peek()) is not None and word(token) != ";":
            if depth == 0 and any(self.at(each) for each in words):
                break
            depth += (word(token) in OPENING[:2]) - (word(token) in CLOSING[:2])
            if depth < 0:
                break
            self.place += 1
        return self.tokens[begin : self.place]
