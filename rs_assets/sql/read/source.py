"""The text of a file of statements, and its errors with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from rs_assets.errors import SqlError

# In whose words statements are.
Dialect = Literal["flink", "spark"]
# Quoted pieces and remarks; what stands alone at the end is a quote or remark that nobody closes.
_PIECES = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|/\*.*?\*/|['`]|/\*", re.DOTALL)
# In Spark a backslash keeps the quote behind it from closing, texts stand in either quotes, and remarks in remarks.
_INNER = r"/\*(?:(?!/\*|\*/).)*\*/"
_SPARK_PIECES = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*"""
    rf"""|/\*(?:{_INNER}|(?!/\*|\*/).)*\*/|['"`]|/\*""",
    re.DOTALL,
)
OPENED = {"'": "a text", '"': "a text", "`": "a name in backticks", "/*": "a remark"}


@dataclass(frozen=True, slots=True)
class Text:
    """Statements as they were written, the file that they stand in, if there is one, and in whose words they are."""

    sql: str
    file: str | None = None
    dialect: Dialect = "flink"

    @property
    def _pieces(self) -> re.Pattern[str]:
        return _SPARK_PIECES if self.dialect == "spark" else _PIECES

    def error(self, what: str, at: object, *, remedy: str = "", step: str | None = None) -> SqlError:
        r"""The error for what stands `at` an offset, a token or a tree.

        >>> Text("SELECT a\nFROM b").error("no", 14).facts
        {'line': 2, 'column': 6}
        """
        offset = start_of(at)
        line = self.sql.count("\n", 0, offset) + 1
        column = offset - (self.sql.rfind("\n", 0, offset) + 1) + 1
        return SqlError(what, line=line, column=column, file=self.file, remedy=remedy, step=step)

    def written(self, tree: Any) -> str:
        """The text that `tree` was read from, from its first named part to its last."""
        starts = [node.meta for node in tree.walk() if "start" in node.meta]
        if not starts:
            return ""
        return self.sql[min(m["start"] for m in starts) : max(m["end"] for m in starts) + 1]

    def bare(self) -> str:
        """The text without what is quoted, and without remarks; the sign of one that is not closed stays.

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
                raise self.error(
                    f"{OPENED[found.group()]} begins here and does not end", found.start(), remedy="close it"
                )


def start_of(at: object) -> int:
    """Where an offset, a token or a tree begins in its text.

    A tree begins where the first of its parts does that has a place, else where the one above it does.
    """
    if isinstance(at, int):
        return at
    if hasattr(at, "walk"):
        starts = [node.meta["start"] for node in at.walk() if "start" in node.meta]
        above = getattr(at, "parent", None)
        return min(starts) if starts else start_of(above) if above is not None else 0
    return int(getattr(at, "start", 0))


def meant(name: str, known: Iterable[str]) -> str:
    """A remedy for the unknown `name`: the nearest of those that are known, or all of them.

    >>> meant("pirce", ["price", "bidder"])
    "did you mean 'price'?"
    """
    names = list(known)
    near = next((each for each in names if each.casefold() == name.casefold()), None)
    near = near or next(iter(get_close_matches(name, names, n=1)), None)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"there are: {', '.join(names)}" if names else ""
