"""The parts of an SQL text in which spaces and words have no meaning of their own: texts, quoted names, comments."""

from __future__ import annotations

import re

# Texts, and names in backticks.
QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`", re.DOTALL)
# The same and comments, whose end is the end of their line, or spaces between other parts.
_KEPT = re.compile(rf"({QUOTED.pattern}|/\*.*?\*/|--[^\n]*\n?)|\s+", re.DOTALL)


def one_line(text: str) -> str:
    """`text` with one space where it has several, or line ends; those inside of texts and quoted names stay.

    A comment keeps its end, since what follows it is code.

    >>> one_line("page  =   'a  b' "), one_line("`a  b`   + 1")
    ("page = 'a  b'", '`a  b` + 1')
    """
    return _KEPT.sub(lambda found: found[1] or " ", text.strip())
