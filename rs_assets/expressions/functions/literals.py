"""Writes and reads literals and names of Spark SQL."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"(?:- ?)?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[LD]?")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}


def quote(text: str) -> str:
    r"""`text` as a literal of Spark SQL.

    >>> print(quote("it's a \\ b"))
    'it\'s a \\ b'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unquote(sql: str) -> str | None:
    r"""The text of a string literal, None if `sql` is something else.

    >>> unquote(quote("it's")), unquote("upper('a')"), unquote("'a' || 'b'")
    ("it's", None, None)
    """
    found = _QUOTED.fullmatch(sql.strip())
    if found is None:
        return None
    return re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), found[1], flags=re.DOTALL)


def separated_by(separator: str) -> str:
    r"""The SQL of a pattern that matches a text literally, from the SQL of the text.

    >>> print(separated_by("'.'"))
    '\\Q.\\E'
    """
    text = unquote(separator)
    if text is not None:
        return quote(_BEGIN + text.replace(_END, _WITHIN) + _END)
    within = f"replace({separator}, {quote(_END)}, {quote(_WITHIN)})"
    return f"concat({quote(_BEGIN)}, {within}, {quote(_END)})"


# The begin and end of a literal part of a pattern; the third is an end within it.
_BEGIN, _END = "\\Q", "\\E"
_WITHIN = rf"{_END}\\E{_BEGIN}"


def is_number(sql: str) -> bool:
    """Whether `sql` is a literal number.

    >>> is_number("-1.5"), is_number("a1")
    (True, False)
    """
    return _NUMBER.fullmatch(sql.strip()) is not None


def is_null(sql: str) -> bool:
    """Whether `sql` is the literal null."""
    return sql.strip().lower() == "null"


def quote_name(name: str) -> str:
    """A field name quoted for Spark SQL, whatever characters it has.

    >>> quote_name("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"
