"""Formats of times: the pattern characters that Spark both reads and writes."""

from __future__ import annotations

import re
from zoneinfo import available_timezones

from rs_assets.errors import TopologyError

# The characters of a format, and how often each may be repeated.
LETTERS = {
    "y": 4,
    "M": 4,
    "L": 4,
    "d": 2,
    "D": 3,
    "a": 1,
    "h": 2,
    "H": 2,
    "k": 2,
    "K": 2,
    "m": 2,
    "s": 2,
    "S": 9,
    "X": 5,
    "x": 5,
}
# These can only be written.
WRITTEN = {"E": 4, "q": 2, "Q": 2, "F": 1, "G": 4, "z": 4, "O": 1}
_PARTS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|(.)")


def checked_format(text: str, what: str, *, read: bool = False) -> str:
    """`text`, if Spark can write times in this format (and read them, with `read`); TopologyError if not.

    >>> checked_format("yyyy-MM-dd'T'HH:mm", "format")
    "yyyy-MM-dd'T'HH:mm"
    >>> checked_format("YYYY-MM-dd", "format")
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: the format has 'YYYY', which is not a part of a time: 'YYYY-MM-dd'
      remedy: write a year as yyyy, and quote literal text
    """
    for part in _PARTS.finditer(text):
        letter = part[1]
        allowed = (LETTERS if read else LETTERS | WRITTEN).get(letter or "", 0)
        # Years of any number of digits are out of Spark's range.
        wrong = letter and (len(part[0]) > allowed or (letter == "y" and len(part[0]) % 2))
        if part[2] or wrong or (not letter and set(part[0]) & set("[]{}#")):
            raise TopologyError(
                f"the {what} has {part[0]!r}, which is not a part of a time: {text!r}",
                remedy="write a year as yyyy, and quote literal text",
            )
    if not text.strip():
        raise TopologyError(f"the {what} is empty", remedy="write it as 'yyyy-MM-dd HH:mm:ss'")
    return text


def checked_zone(zone: str) -> str:
    """`zone`, if Java knows it, too; TopologyError if not.

    >>> checked_zone("Asia/Shanghai"), checked_zone("+08:00")
    ('Asia/Shanghai', '+08:00')
    """
    if re.fullmatch(r"[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00", zone) or zone in available_timezones():
        return zone
    raise TopologyError(f"there is no time zone {zone!r}", remedy="write it as Europe/Berlin, UTC or +08:00")
