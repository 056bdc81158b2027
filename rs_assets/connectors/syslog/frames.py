"""The messages in a stream of bytes, as RFC 6587 divides it: by their lengths, or by line ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The digits of a length, and the space after it.
LENGTH_BYTES = 11
DIGITS = b"123456789"
ENDS = b"\n\0\r"


class TooLong(Exception):
    """A message has more bytes than are taken; `before` are those that were complete before it."""

    def __init__(self, before: Sequence[bytes] = ()) -> None:
        super().__init__()
        self.before = before


@dataclass(slots=True)
class Frames:
    r"""Divides what comes over one connection.

    >>> frames = Frames(100)
    >>> frames.feed(b"5 <1>ab<2>x\n<3"), frames.feed(b">y"), frames.rest()
    ([b'<1>ab', b'<2>x'], [], [b'<3>y'])
    """

    most: int
    _left: bytes = b""

    def feed(self, block: bytes) -> list[bytes]:
        """The messages that are complete now; TooLong for one that has too many bytes."""
        data, at, found = self._left + block, 0, list[bytes]()
        try:
            while (span := self._next(data, at)) is not None:
                start, end = span
                message = data[start:end].rstrip(ENDS)
                if message:
                    found.append(message)
                at = end
        except TooLong:
            raise TooLong(found) from None
        self._left = data[at:]
        return found

    def rest(self) -> list[bytes]:
        """A last line without an end; what was announced with a length and has not come is not a message."""
        left, self._left = self._left, b""
        return [left] if left.strip(ENDS) and left[:1] not in DIGITS else []

    def _next(self, data: bytes, at: int) -> tuple[int, int] | None:
        """The next message in the data; None if it is not complete."""
        if at >= len(data):
            return None
        if data[at : at + 1] in DIGITS:
            return self._counted(data, at)
        end = data.find(b"\n", at)
        if (len(data) if end < 0 else end) - at > self.most:
            raise TooLong
        return None if end < 0 else (at, end + 1)

    def _counted(self, data: bytes, at: int) -> tuple[int, int] | None:
        space = data.find(b" ", at, at + LENGTH_BYTES)
        if space < 0:
            if len(data) - at >= LENGTH_BYTES:
                raise TooLong
            return None
        length = data[at:space]
        if not length.isdigit() or int(length) > self.most:
            raise TooLong
        end = space + 1 + int(length)
        return (space + 1, end) if end <= len(data) else None
