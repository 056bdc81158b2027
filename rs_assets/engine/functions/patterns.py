"""What is wrong with a regular expression of Java's, found without Java."""

from __future__ import annotations

import re

# What may stand behind a backslash, outside of quotes, besides what is no letter.
_ESCAPES = re.compile(
    r"\\(?:[tnrfaedDhHsSvVwWbBAGzZRX]|0[0-3]?[0-7]{1,2}|x[0-9a-fA-F]{2}|x\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|c.|[1-9]"
    r"|[pP](?:[LMNPSZC]|\{[A-Za-z_=]+\})|[^A-Za-z0-9])",
    re.DOTALL,
)
_OPENING = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|<[a-zA-Z][a-zA-Z0-9]*>|[idmsuxU]*(?:-[idmsuxU]+)?[:)]))?")
_REPEAT = re.compile(r"(?:[*+?]|\{\d{1,9}(?:,\d{0,9})?\})[?+]?")
# What a class may not have unless it is escaped: classes in classes and their intersections are Java's own.
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\\[&])*\]", re.DOTALL)


def fault_of(pattern: str) -> str | None:
    r"""What Java's `Pattern` surely or probably refuses in `pattern`, None if it takes it.

    Common patterns are told right; of those with classes inside of classes, octal or named characters only those that
    have no such part.

    >>> fault_of("foo(.*?)(bar)"), fault_of("("), fault_of("*a"), fault_of("a{,3}")
    (None, "'(' is not closed", "'*' repeats nothing", "'{' repeats nothing")
    """
    at, depth, repeatable = 0, 0, False
    while at < len(pattern):
        rest = pattern[at:]
        quoted = re.match(r"\\Q.*?(?:\\E|$)", rest, re.DOTALL)
        found = quoted or _part(rest)
        if found is None:
            return f"{rest[:2]!r} is no part of a pattern"
        part = found[0]
        if part[0] == "(":
            flags = part[-1] == ")"
            depth, repeatable = depth + (not flags), False
        elif part == ")":
            depth, repeatable = depth - 1, True
            if depth < 0:
                return "')' closes nothing"
        elif part == "|":
            repeatable = False
        elif part[0] in "*+?{":
            if not repeatable or part == "{":
                return f"{part[0]!r} repeats nothing"
            repeatable = False
        else:
            repeatable = True
        at += found.end()
    return "'(' is not closed" if depth else None


def _part(rest: str) -> re.Match[str] | None:
    """The next part of a pattern."""
    match rest[0]:
        case "\\":
            return _ESCAPES.match(rest)
        case "(":
            return _OPENING.match(rest) if not rest.startswith("(?") or len(_OPENING.match(rest)[0]) > 1 else None  # type: ignore[index]
        case "[":
            return _CLASS.match(rest)
        case "*" | "+" | "?" | "{":
            return _REPEAT.match(rest) or re.match(r"\{", rest)
    return re.match(r".", rest, re.DOTALL)


def groups_of(pattern: str) -> int:
    r"""How many groups a pattern has that is without fault.

    >>> groups_of(r"(a)(?:b)\((?<year>[(]c)")
    2
    """
    plain = re.sub(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "", pattern, flags=re.DOTALL)
    return len(re.findall(r"\((?!\?)|\(\?<[a-zA-Z]", plain))
