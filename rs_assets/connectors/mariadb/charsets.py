"""Character sets of MariaDB: which are decoded here as the server does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Python's codec of a character set that it reads as the server does; columns of others are refused.
CODECS: Final[Mapping[str, str]] = MappingProxyType(
    {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252", "ucs2": "utf-16-be"}
    | {"utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "latin2": "iso8859-2", "tis620": "tis-620"}
    | {"koi8r": "koi8-r", "koi8u": "koi8-u", "hp8": "hp-roman8", "macce": "mac-latin2", "euckr": "cp949"}
    | {name: name for name in ("ascii", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932")}
    | {name: name for name in ("gb2312", "gbk", "greek", "hebrew", "latin5", "latin7", "macroman", "sjis")}
)
# Characters that Python makes of bytes of which the server makes others.
ODD: Final[Mapping[str, Mapping[int, int]]] = MappingProxyType(
    {
        name: str.maketrans(python, server)
        for name, (python, server) in {
            "cp866": ("\u2116\u00a4", "\u207f\u00b2"), "greek": ("\u2018\u2019", "\u02bd\u02bc"),
            "hebrew": ("\u00af", "\u203e"), "koi8u": ("\u2219", "\u2022"), "sjis": ("\uff3c", "\\"),
        }.items()
    }
)  # fmt: skip
# The server's latin1 is cp1252, in which the bytes that are free there are control characters.
LATIN1: Mapping[int, str] = MappingProxyType(
    {code: bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(0x80, 0xA0)}
)


def decoded(value: bytes, charset: str) -> str:
    """The text of bytes in a character set of CODECS, as the server writes it."""
    if charset == "latin1":
        if value.isascii():
            return value.decode("ascii")
        return value.decode("latin-1").translate(LATIN1)
    text = value.decode(CODECS[charset], "replace")
    return text.translate(ODD[charset]) if charset in ODD else text
