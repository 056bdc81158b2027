"""Numbers with their nouns, for texts that people read."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """A number and the noun of what is counted, which may have words before it.

    >>> count_of(1, "late row"), count_of(0, "batch"), count_of(2_000, "entry")
    ('1 late row', '0 batches', '2,000 entries')
    """
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """The form of a regular noun after a number.

    >>> plural(1, "row"), plural(3, "query"), plural(3, "key"), plural(3, "index")
    ('row', 'queries', 'keys', 'indexes')
    """
    if number == 1:
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
