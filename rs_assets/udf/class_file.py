"""Reads the methods of a Java class from its file, without Java: the class file format of Java 1.0 to 25."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PUBLIC, STATIC, BRIDGE, ABSTRACT, SYNTHETIC = 0x0001, 0x0008, 0x0040, 0x0400, 0x1000
_MAGIC: Final = 0xCAFEBABE
# The bytes of a constant after its tag; one of a text has its length besides.
_SIZES: Mapping[int, int] = MappingProxyType(
    {
        **dict.fromkeys((8, 16, 19, 20), 2),
        15: 3,
        **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
        **dict.fromkeys((5, 6), 8),
    }
)
_TEXT, _CLASS = 1, 7
# These count as two constants.
_WIDE: Final = frozenset({5, 6})


class NoClassError(ValueError):
    """Bytes that are not a class file."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: its name, its descriptor, `(Ljava/lang/String;J)I`, and its access flags."""

    name: str
    descriptor: str
    flags: int

    def has(self, flag: int) -> bool:
        """Whether it has an access flag."""
        return bool(self.flags & flag)

    @property
    def types(self) -> tuple[str, ...]:
        """The descriptors of its parameters, and that of its result.

        >>> Method("f", "(Ljava/lang/String;[BJ)I", PUBLIC).types
        ('Ljava/lang/String;', '[B', 'J', 'I')
        """
        found, at, text = list[str](), 0, self.descriptor[1:].replace(")", "")
        while at < len(text):
            begin = at
            while text[at] == "[":
                at += 1
            at = text.index(";", at) + 1 if text[at] == "L" else at + 1
            found.append(text[begin:at])
        return tuple(found)


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A class: its access flags, the name of the class above it, and its methods without those that it inherits."""

    flags: int
    above: str
    methods: tuple[Method, ...]


def java_class(content: bytes) -> JavaClass:
    """The class of a file; NoClassError for other bytes."""
    try:
        return _Reader(content).read()
    except KeyError as error:
        raise NoClassError("the file is damaged") from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def read(self) -> JavaClass:
        if self._number(4) != _MAGIC:
            raise NoClassError("the file is not a class")
        self._number(4)
        texts, classes = self._constants()
        flags = self._number(2)
        # This class.
        self._number(2)
        above = self._number(2)
        self._skip(2 * self._number(2))
        self._members(texts)
        # Only java.lang.Object has none above it.
        name = texts[classes[above]].replace("/", ".") if above else ""
        return JavaClass(flags, name, self._members(texts))

    def _constants(self) -> tuple[dict[int, str], dict[int, int]]:
        """The texts among the constants, by their numbers, and the numbers of the names of classes."""
        texts, classes, number, count = dict[int, str](), dict[int, int](), 1, self._number(2)
        while number < count:
            tag = self._number(1)
            if tag == _TEXT:
                length = self._number(2)
                texts[number] = self.content[self.at : self.at + length].decode("utf-8", "replace")
                self._skip(length)
            elif tag == _CLASS:
                classes[number] = self._number(2)
            else:
                self._skip(_SIZES[tag])
            number += 2 if tag in _WIDE else 1
        return texts, classes

    def _members(self, texts: Mapping[int, str]) -> tuple[Method, ...]:
        """The fields, or the methods."""
        found = list[Method]()
        for _ in range(self._number(2)):
            flags, name, descriptor = self._number(2), self._number(2), self._number(2)
            for _ in range(self._number(2)):
                self._number(2)
                self._skip(self._number(4))
            found.append(Method(texts[name], texts[descriptor], flags))
        return tuple(found)

    def _skip(self, size: int) -> None:
        if self.at + size > len(self.content):
            raise NoClassError("the file is damaged")
        self.at += size

    def _number(self, size: int) -> int:
        self._skip(size)
        return int.from_bytes(self.content[self.at - size : self.at], "big")
