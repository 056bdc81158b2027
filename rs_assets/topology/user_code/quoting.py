"""The parts of an SQL text in which spaces and words have no meaning of their own: texts, quoted names, comments."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Texts, and names in backticks.
QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`", re.DOTALL)
# The same and comments, whose end is the end of their line, or spaces between other parts.
_KEPT = re.compile(rf"({QUOTED.pattern}|/\*.*?\*/|--[^\n]*\n?)|\s+", re.DOTALL)
# The same, spaces, and each other character by itself.
_PARTS = re.compile(rf"{QUOTED.pattern}|/\*.*?\*/|--[^\n]*|\s+|.", re.DOTALL)
_COUNT = re.compile(r"(?<![\w`.])count\s*\(\s*$", re.IGNORECASE)
_EXCEPT = re.compile(r"\s*EXCEPT\s*\(", re.IGNORECASE)


def without(text: str, names: Sequence[str]) -> str:
    """`text` with stars, which stand for all fields, that leave out the fields `names`; `count(*)` counts rows.

    >>> without("to_json(struct(*)) AS j, 2 * n, '(*)'", ["x"])
    "to_json(struct(* EXCEPT (`x`))) AS j, 2 * n, '(*)'"
    >>> without("* EXCEPT (a)", ["x"]), without("count(*)", ["x"])
    ('* EXCEPT (`x`, a)', 'count(*)')
    """
    if not names or "*" not in text:
        return text
    left, made, before, at = ", ".join(f"`{name}`" for name in names), list[str](), "(", 0
    while found := _PARTS.match(text, at):
        part, at = found[0], found.end()
        made.append(part)
        # A star after an operand multiplies.
        if part == "*" and before in "(," and not _COUNT.search(text, 0, at - 1):
            more = _EXCEPT.match(text, at)
            made.append(f" EXCEPT ({left}, " if more else f" EXCEPT ({left})")
            at = more.end() if more else at
        if not (part.isspace() or part.startswith(("/*", "--"))):
            before = part[-1]
    return "".join(made)


def one_line(text: str) -> str:
    """`text` with one space where it has several, or line ends; those inside of texts and quoted names stay.

    A comment keeps its end, since what follows it is code.

    >>> one_line("page  =   'a  b' "), one_line("`a  b`   + 1")
    ("page = 'a  b'", '`a  b` + 1')
    """
    return _KEPT.sub(lambda found: found[1] or " ", text.strip())
