"""The text of an error of delta-rs, which lists its causes on lines of their own."""

from __future__ import annotations

import re

# How delta-rs colours the causes.
COLOURED = re.compile(r"\x1b\[[0-9;]*m|↳")


def causes_of(error: Exception) -> str:
    r"""An error with its causes in one line of at most 500 characters; the last cause says what is wrong.

    >>> causes_of(OSError("cannot write\n  \x1b[31m↳\x1b[0m No space left on device"))
    'cannot write: No space left on device'
    """
    lines = (line.strip() for line in COLOURED.sub("", str(error)).splitlines())
    return ": ".join(line for line in lines if line)[:500]
