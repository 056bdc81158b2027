"""Values of Postgres for JSON: texts as the server writes them become the bytes of JSON, without a value of Python."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from orjson import dumps

Encode = Callable[[bytes], bytes]
NULL: Final = b"null"
# So many digits are always a number of 64 bits, and not all that are longer.
SURE: Final = 18
ZERO: Final = ord("0")
WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
# A text of these needs no escapes.
PLAIN: Final = b"0123456789-:. +"


def encoder(kind: str) -> Encode:
    r"""What makes JSON of the text of a value, for a field of the type `kind`.

    >>> [encoder(kind)(text) for kind, text in [("int", b"7"), ("double", b"NaN"), ("boolean", b"t")]]
    [b'7', b'"NaN"', b'true']
    >>> encoder("timestamp")(b"2024-03-01 12:00:00.5+00"), encoder("binary")(rb"\xff"), encoder("string")(b'"')
    (b'"2024-03-01T12:00:00.5Z"', b'"/w=="', b'"\\""')
    """
    return _BY_KIND.get(kind, _text)


def _text(text: bytes) -> bytes:
    try:
        return dumps(text.decode())
    except UnicodeDecodeError:
        # A database without an encoding has any bytes: the parser makes a bad record of those that are not UTF-8.
        return json.dumps(text.decode(errors="surrogateescape"), ensure_ascii=False).encode(errors="surrogateescape")


def _whole(text: bytes) -> bytes:
    if text.isdigit() and len(text) <= SURE and (text[0] != ZERO or len(text) == 1):
        return text
    # What is not a number of 64 bits stays a text, which the parser refuses as a bad record.
    found = text.decode()
    number = int(found) if WHOLE.fullmatch(found) else None
    return dumps(found if number is None or not -(1 << 63) <= number < 1 << 63 else number)


def _real(text: bytes) -> bytes:
    try:
        found = float(text)
    except ValueError:
        return _text(text)
    return dumps(found) if abs(found) < float("inf") else _text(text)


def _truth(text: bytes) -> bytes:
    return {b"t": b"true", b"f": b"false"}.get(text) or _text(text)


def _bytes(text: bytes) -> bytes:
    raw = bytes.fromhex(text[2:].decode()) if text.startswith(b"\\x") else text
    return b'"%b"' % base64.b64encode(raw)


def _day(text: bytes) -> bytes:
    # Spark ignores what follows a blank: the year 44 BC would be 44. Without the blank it is a bad record.
    return _text(text.replace(b" ", b""))


def _moment(text: bytes) -> bytes:
    zone = b"Z" if text.endswith(b"+00") else b""
    made = text.replace(b" ", b"T", 1).removesuffix(b"+00") + zone
    return _text(made) if text.translate(None, PLAIN) else b'"%b"' % made


_BY_KIND: Final[Mapping[str, Encode]] = MappingProxyType(
    dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole)
    | dict.fromkeys(("float", "double"), _real)
    | dict.fromkeys(("timestamp", "timestamp_ntz"), _moment)
    | {"boolean": _truth, "binary": _bytes, "date": _day}
)
