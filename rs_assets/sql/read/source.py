"""The text of a file of statements, and its errors with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal

from rs_assets.errors import SqlError

# The dialects of statements.
Dialect = Literal["flink", "spark"]
# Quoted pieces and remarks; a single opening sign is an unclosed quote or remark.
_PIECES = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|/\*.*?\*/|['`]|/\*", re.DOTALL)
# In Spark a backslash escapes a quote, texts use either kind of quotes, and remarks are nested.
_INNER = r"/\*(?:(?!/\*|\*/).)*\*/"
_SPARK_PIECES = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*"""
    rf"""|/\*(?:{_INNER}|(?!/\*|\*/).)*\*/|['"`]|/\*""",
    re.DOTALL,
)
OPENED = {"'": "a text", '"': "a text", "`": "a name in backticks", "/*": "a remark"}


@dataclass(frozen=True, slots=True)
class Text:
    """The source text of statements, its file, if there is one, and its dialect."""

    sql: str
    file: str | None = None
    dialect: Dialect = "flink"

    @property
    def _pieces(self) -> re.Pattern[str]:
        return _SPARK_PIECES if self.dialect == "spark" else _PIECES

    def error(self, what: str, at: object, *, remedy: str = "", step: str | None = None) -> SqlError:
        r"""The error at an offset, a token or a tree.

        >>> Text("SELECT a\nFROM b").error("no", 14).facts
        {'line': 2, 'column': 6}
        """
        offset = start_of(at)
        line = self.sql.count("\n", 0, offset) + 1
        column = offset - (self.sql.rfind("\n", 0, offset) + 1) + 1
        return SqlError(what, line=line, column=column, file=self.file, remedy=remedy, step=step)

    def written(self, tree: Any) -> str:
        """The source text of `tree`, from its first named part to its last, with the brackets that these opened."""
        starts = [node.meta for node in tree.walk() if "start" in node.meta]
        if not starts:
            return ""
        begin, end = min(m["start"] for m in starts), max(m["end"] for m in starts) + 1
        while self._open(begin, end) and (close := self.sql.find(")", end)) >= 0:
            end = close + 1
        return self.sql[begin:end]

    def _open(self, begin: int, end: int) -> bool:
        """Whether a bracket of this part of the text is not closed in it."""
        piece = replace(self, sql=self.sql[begin:end]).bare()
        return piece.count("(") > piece.count(")")

    def bare(self) -> str:
        """The text without quoted pieces and remarks; the opening sign of an unclosed one remains.

        >>> Text("SELECT 'a;' FROM `b;` -- all;").bare().split()
        ['SELECT', 'FROM']
        """
        return self._pieces.sub(lambda found: found.group() if found.group() in OPENED else " ", self.sql)

    def remarks(self) -> Iterator[re.Match[str]]:
        """The remarks between /* and */, hints among them."""
        return (found for found in self._pieces.finditer(self.sql) if len(found.group()) > 2 and found[0][:2] == "/*")

    def check_closed(self) -> None:
        """SqlError for a quote or a remark that is not closed."""
        for found in self._pieces.finditer(self.sql):
            if found.group() in OPENED:
                raise self.error(f"{OPENED[found.group()]} is not closed", found.start(), remedy="close it")


def start_of(at: object) -> int:
    """The start of an offset, a token or a tree in its text.

    A tree begins at its first part that has a position, else where its parent begins.
    """
    if isinstance(at, int):
        return at
    if hasattr(at, "walk"):
        starts = [node.meta["start"] for node in at.walk() if "start" in node.meta]
        above = getattr(at, "parent", None)
        return min(starts) if starts else start_of(above) if above is not None else 0
    return int(getattr(at, "start", 0))


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for the unknown `name`: the nearest known name, or all of them.

    >>> nearest("pirce", ["price", "bidder"])
    "did you mean 'price'?"
    """
    names = list(known)
    near = next((each for each in names if each.casefold() == name.casefold()), None)
    near = near or next(iter(get_close_matches(name, names, n=1)), None)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"use one of: {', '.join(names)}" if names else ""
