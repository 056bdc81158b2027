"""Frames of the remoting protocol: a JSON header with a code and texts, and a body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

# The version that brokers see, that of 5.0.0: from 4.9.4 on a route is valid JSON.
VERSION: Final = 455
RESPONSE: Final = 1
# The largest frame that servers send or accept, in bytes.
LARGEST: Final = 16 << 20
LENGTHS: Final = struct.Struct(">II")


class Codes:
    """The codes of requests that this client makes."""

    SEND: Final = 310
    SEND_BATCH: Final = 320
    PULL: Final = 11
    QUERY_GROUP_OFFSET: Final = 14
    UPDATE_GROUP_OFFSET: Final = 15
    CREATE_TOPIC: Final = 17
    DELETE_TOPIC: Final = 215
    FORGET_TOPIC: Final = 216
    OFFSET_OF_TIME: Final = 29
    MAX_OFFSET: Final = 30
    MIN_OFFSET: Final = 31
    ROUTE: Final = 105
    CREATE_GROUP: Final = 200


class Answers:
    """The codes of answers that have a meaning here."""

    DONE: Final = 0
    SYSTEM_ERROR: Final = 1
    BUSY: Final = 2
    ILLEGAL: Final = 13
    NOT_AVAILABLE: Final = 14
    NO_PERMISSION: Final = 16
    NO_TOPIC: Final = 17
    NOT_FOUND: Final = 19
    NOTHING_MATCHED: Final = 20
    OFFSET_MOVED: Final = 21
    NO_OFFSET: Final = 22
    BAD_FILTER: Final = 23
    NO_GROUP: Final = 26


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key, and the secret that signs requests."""

    access_key: str
    secret_key: str = field(repr=False)

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """`fields` with the key and the signature of all of them and the body.

        >>> Credentials("me", "s").signed({"topic": "t"}, b"x")["Signature"]
        '...='
        """
        made = {**fields, "AccessKey": self.access_key}
        content = "".join(made[name] for name in sorted(made)).encode() + body
        digest = hmac.new(self.secret_key.encode(), content, hashlib.sha1).digest()
        return {**made, "Signature": base64.b64encode(digest).decode()}


@dataclass(frozen=True, slots=True)
class Frame:
    """An answer, or a request: `code`, texts by name, and a body. `remark` is the text of a refusal."""

    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    remark: str = ""
    opaque: int = 0
    is_answer: bool = True

    def number(self, name: str) -> int:
        """A field that is a number."""
        return int(self.fields[name])


def dumped(code: int, opaque: int, fields: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    header = orjson.dumps(
        {
            "code": code,
            "language": "PYTHON",
            "version": VERSION,
            "opaque": opaque,
            "flag": 0,
            "remark": None,
            "extFields": dict(fields),
        }
    )
    return LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body


def loaded(content: bytes | bytearray | memoryview) -> Frame:
    """The frame in `content`, without its first length; ValueError if it is damaged or not in JSON.

    >>> loaded(dumped(30, 7, {"topic": "t"}, b"x")[4:])
    Frame(code=30, fields={'topic': 't'}, body=b'x', remark='', opaque=7, is_answer=False)
    """
    kind, size = content[0], int.from_bytes(content[1:4], "big")
    if kind != 0:
        raise ValueError(f"a header of type {kind} instead of JSON")
    header: dict[str, Any] = orjson.loads(bytes(content[4 : 4 + size]))
    return Frame(
        code=header["code"],
        fields=header.get("extFields") or {},
        body=bytes(content[4 + size :]),
        remark=header.get("remark") or "",
        opaque=header["opaque"],
        is_answer=bool(header["flag"] & RESPONSE),
    )
