r"""Java's regular expressions for Python, and for Hyperscan.

Python gets a pattern that finds exactly what Java finds. Hyperscan gets one that finds at least that, so what it
reports is verified by Python. Both are ASCII in `\d`, `\w` and case, as Java is without flags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

from rs_assets.expressions.functions.patterns import fault_of, unquoted

# What ends a line for Java: `.` does not match it, and `$` matches before the last one.
TERMINATORS = r"\n\r\u0085\u2028\u2029"
# The end of a text after a character other than `\r`, for Hyperscan: what may follow is read too.
SCANNED_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
END = rf"(?!(?<=\r)\n)(?=(?:\r\n|[{TERMINATORS}])?\Z)"
NOTHING = "(?:)"
# Positions and groups of characters by the sign of their escape: for Python, for Hyperscan, and whether both agree.
ESCAPES = MappingProxyType(
    {
        **{letter: (f"\\{letter}", f"\\{letter}", True) for letter in "dDwWsS"},
        "b": (r"(?u:\b)", NOTHING, False),
        # Java's is found in an empty text, Python's is not.
        "B": (r"(?:(?u:\B)|\A\Z)", NOTHING, False),
        "A": (r"\A", "^", True),
        "z": (r"\Z", NOTHING, False),
        "Z": (END, NOTHING, False),
    }
)
# Classes that Java defines by ASCII characters.
POSIX = MappingProxyType(
    {
        "Alpha": "a-zA-Z",
        "Digit": "0-9",
        "Alnum": "a-zA-Z0-9",
        "Upper": "A-Z",
        "Lower": "a-z",
        "XDigit": "0-9a-fA-F",
        "Space": r" \t\n\x0b\f\r",
        "Blank": r" \t",
        "ASCII": r"\x00-\x7f",
    }
)
CONTROLS = MappingProxyType({"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"})
_CODE = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})")
_REPEAT = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})([?+]?)")
_OPENING = re.compile(r"\((?:\?(?:(?P<kind>[:=!>]|<[=!]|i:)|<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>))?")
_FLAGS = re.compile(r"\(\?([is]+)\)")
_POSIX = re.compile(r"p\{(\w+)\}")
# Java reads two of them as one character.
SURROGATES = range(0xD800, 0xE000)
LOOKS = frozenset({"=", "!", "<=", "<!"})


class NotPortableError(ValueError):
    """A valid Java pattern whose meaning elsewhere is not certain."""


@dataclass(frozen=True, slots=True)
class Portable:
    """A pattern for Python's `re`, and `scan` for Hyperscan; `certain`: both find the same."""

    text: str
    scan: str
    caseless: bool = False
    certain: bool = False

    def compiled(self) -> re.Pattern[str]:
        """The pattern for `search`; NotPortableError if Python refuses it."""
        try:
            return re.compile(self.text, re.ASCII | (re.IGNORECASE if self.caseless else re.NOFLAG))
        except (re.error, OverflowError, RecursionError) as error:
            raise NotPortableError(f"Python has no such pattern: {error}") from None


def portable(pattern: str, *, caseless: bool = False) -> Portable:
    r"""A Java pattern for Python and Hyperscan; NotPortableError if its meaning there is not certain.

    >>> portable(r"/tmp/\w+[.]sh")
    Portable(text='/tmp/\\w+[\\.]sh', scan='\\x{2f}tmp\\x{2f}\\w+[\\x{2e}]sh', caseless=False, certain=True)
    >>> portable("[a&&b]")
    Traceback (most recent call last):
    rs_assets.expressions.rules.portable.NotPortableError: a class inside of a class
    """
    fault = fault_of(pattern)
    if fault is not None:
        raise NotPortableError(fault)
    reader = _Reader(unquoted(pattern), caseless=caseless)
    reader.read()
    made = Portable("".join(reader.python), "".join(reader.scan), reader.caseless, reader.certain)
    made.compiled()
    return made


def literal(text: str) -> Portable:
    r"""A pattern that finds `text`.

    >>> literal("a.b").text
    'a\\.b'
    """
    return Portable(re.escape(text), "".join(map(_scanned, text)), certain=True)


def like(pattern: str) -> Portable:
    r"""The pattern of SQL's LIKE, in which a backslash is itself.

    >>> like("a%_").text
    '\\Aa(?s:.*)(?s:.)\\Z'
    """
    wild = {"%": ("(?s:.*)", ".*"), "_": ("(?s:.)", ".")}
    parts = [wild.get(sign, (re.escape(sign), _scanned(sign))) for sign in pattern]
    return Portable(rf"\A{''.join(one for one, _ in parts)}\Z", rf"^{''.join(two for _, two in parts)}\z", certain=True)


def _scanned(sign: str) -> str:
    """A literal character for Hyperscan."""
    return sign if sign.isascii() and sign.isalnum() else f"\\x{{{ord(sign):x}}}"


class _Reader:
    """Reads a valid pattern from left to right."""

    def __init__(self, pattern: str, *, caseless: bool) -> None:
        flags = _FLAGS.match(pattern)
        self.pattern, self.at = pattern, flags.end() if flags else 0
        self.caseless = caseless or (flags is not None and "i" in flags[1])
        self.dot = r"[\s\S]" if flags is not None and "s" in flags[1] else rf"[^{TERMINATORS}]"
        self.certain = not self.caseless
        self.python: list[str] = []
        self.scan: list[str] = []
        # For each open group whether Hyperscan leaves it out, and whether it is read without regard to case.
        self.hidden: list[bool] = []
        self.folded: list[bool] = []
        # Whether the pattern has no alternatives outside of groups, and its last part is a character other than \r.
        self.one, self.plain = True, False

    def read(self) -> None:
        """Read the whole pattern."""
        while self.at < len(self.pattern):
            repeat = _REPEAT.match(self.pattern, self.at)
            if repeat is not None:
                # How often is what Java decides greedily or not; whether is not.
                self.certain &= repeat[2] != "+"
                self._emit(repeat[0], repeat[1])
                self.at = repeat.end()
                self.plain = False
                continue
            sign = self.pattern[self.at]
            plain, self.plain = self.plain, False
            if sign == "$" and plain and self.at == len(self.pattern) - 1 and self.one and not self.hidden:
                self.at += 1
                self._emit(END, SCANNED_END)
            else:
                self.SIGNS.get(sign, _Reader._sign)(self)

    def _emit(self, python: str, scan: str) -> None:
        self.python.append(python)
        if True not in self.hidden:
            self.scan.append(scan)

    def _sign(self) -> None:
        sign = self.pattern[self.at]
        self.at += 1
        self._one_sign(sign)

    def _one_sign(self, sign: str) -> None:
        self.plain = sign != "\r"
        self._emit(re.escape(sign), _scanned(sign))

    def _dot(self) -> None:
        self.at += 1
        self.certain &= self.dot == r"[\s\S]"
        self._emit(self.dot, ".")

    def _begin(self) -> None:
        self.at += 1
        self._emit(r"\A", "^")

    def _end(self) -> None:
        self.at += 1
        self.certain = False
        self._emit(END, NOTHING)

    def _either(self) -> None:
        self.at += 1
        self.one &= bool(self.hidden)
        self._emit("|", "|")

    def _close(self) -> None:
        self.at += 1
        self._emit(")", ")")
        self.folded.pop()
        if self.hidden.pop():
            # Hyperscan reads nothing there; a repetition may follow.
            self._emit("", NOTHING)

    def _open(self) -> None:
        found = _OPENING.match(self.pattern, self.at)
        assert found is not None  # a valid pattern
        kind, name = found["kind"], found["name"]
        self.at = found.end()
        if self.pattern.startswith("?", self.at):
            raise NotPortableError("flags inside of a pattern")
        looks = kind in LOOKS
        self.folded.append(kind == "i:")
        self.certain &= not looks and kind not in (">", "i:")
        if looks:
            self.hidden.append(True)
        self._emit(f"(?P<{name}>" if name else found[0], "(?i:" if kind == "i:" else "(?:" if kind or name else "(")
        if not looks:
            self.hidden.append(False)

    def _escape(self) -> None:
        self.at += 1
        letter = self.pattern[self.at]
        if letter in ESCAPES:
            self.at += 1
            python, scan, certain = ESCAPES[letter]
            self.certain &= certain
            self._emit(python, scan)
        elif letter in "123456789":
            self._again(letter)
        elif letter == "p":
            self._emit(*(f"[{self._posix()}]",) * 2)
        else:
            self._one_sign(self._character())

    def _again(self, digit: str) -> None:
        """A reference to a group; Hyperscan reads on at any place."""
        self.at += 1
        if self.pattern[self.at : self.at + 1].isdigit():
            raise NotPortableError("a reference to a group beyond the ninth")
        self.certain = False
        self._emit(f"(?:\\{digit})", ".*")

    def _posix(self) -> str:
        found = _POSIX.match(self.pattern, self.at)
        if found is None or found[1] not in POSIX:
            raise NotPortableError(f"the character class \\{self.pattern[self.at : self.at + 6]}")
        self.at = found.end()
        return POSIX[found[1]]

    def _character(self) -> str:
        """The character that an escape means, after the backslash."""
        letter = self.pattern[self.at]
        code = _CODE.match(self.pattern, self.at)
        if code is not None:
            self.at = code.end()
            found = int(code[1], 8) if code[1] else int(code[2] or code[3] or code[4], 16)
            if found in SURROGATES:
                raise NotPortableError(f"the escape \\{code[0]}, which is half of a character; write \\x{{1F600}}")
            return chr(found)
        if letter.isascii() and letter.isalnum() and letter not in CONTROLS:
            raise NotPortableError(f"the escape \\{letter}")
        self.at += 1
        return CONTROLS.get(letter, letter)

    def _class(self) -> None:
        """A character class without others inside."""
        negated = self.pattern.startswith("[^", self.at)
        self.at += 2 if negated else 1
        if self.pattern.startswith("]", self.at):
            raise NotPortableError("a class that begins with ']'")
        python, scan = [], []
        while not self.pattern.startswith("]", self.at):
            one, two = self._item()
            python.append(one)
            scan.append(two)
        self.at += 1
        begin = "[^" if negated else "["
        # Hyperscan may fold more than ASCII, so that what a class leaves out would be too much.
        wide = negated and (self.caseless or True in self.folded)
        self._emit(f"{begin}{''.join(python)}]", "." if wide else f"{begin}{''.join(scan)}]")

    def _item(self) -> tuple[str, str]:
        """A character, a range or a group of characters."""
        if self.pattern.startswith(("[", "&&"), self.at):
            raise NotPortableError("a class inside of a class")
        if self.pattern.startswith("\\", self.at):
            letter = self.pattern[self.at + 1]
            if letter in "dDwWsS":
                self.at += 2
                if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
                    raise NotPortableError("a range that begins with several characters")
                return f"\\{letter}", f"\\{letter}"
            if letter == "p":
                self.at += 1
                return (self._posix(),) * 2
        low = self._one()
        if not self.pattern.startswith("-", self.at) or self.pattern[self.at + 1 : self.at + 2] in ("]", "["):
            return _in_class(low), _scanned(low)
        self.at += 1
        high = self._one()
        return f"{_in_class(low)}-{_in_class(high)}", f"{_scanned(low)}-{_scanned(high)}"

    def _one(self) -> str:
        if self.pattern.startswith("\\", self.at):
            self.at += 1
            return self._character()
        self.at += 1
        return self.pattern[self.at - 1]

    SIGNS = MappingProxyType(
        {"(": _open, ")": _close, "[": _class, "\\": _escape, ".": _dot, "^": _begin, "$": _end, "|": _either}
    )


def _in_class(sign: str) -> str:
    return sign if sign.isalnum() else f"\\{sign}" if sign.isascii() and sign.isprintable() else re.escape(sign)
