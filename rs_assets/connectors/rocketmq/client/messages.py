"""Messages as brokers store them, and as batches are sent."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

# Sizes, flags, offsets and times of a stored message, with IPv4 addresses, up to the length of the body; the same
# without the addresses.
HEAD: Final = struct.Struct(">iiiiiqqiq8xq8xiqi")
FRONT, MIDDLE, BACK = struct.Struct(">iiiiiqqiq"), struct.Struct(">q"), struct.Struct(">iqi")
# The second version has a longer name of the topic.
MAGIC: Final[Mapping[int, int]] = MappingProxyType({-626843481: 1, -626843477: 2})
COMPRESSED, SENDER_V6, BROKER_V6, INNER_BATCH = 1, 1 << 4, 1 << 5, 1 << 7
CODEC: Final = 0x700
NAME, END = b"\x01", b"\x02"
KEYS, TAGS = "KEYS", "TAGS"
# A message of a batch before its body: sizes, and a checksum that the broker computes.
SENT: Final = struct.Struct(">iiiii")


class Message(NamedTuple):
    """A stored message. `born_ms` is the time of sending; `properties` are not parsed."""

    offset: int
    flags: int
    born_ms: int
    body: bytes
    properties: bytes


class Damaged(Exception):
    """Bytes that are not messages, or messages in a form that cannot be read."""


def stored(content: bytes) -> Iterator[Message]:
    """The messages of a reply, one after the other, with the body decompressed; Damaged."""
    at, end = 0, len(content)
    while at < end:
        try:
            message, at = _message(content, at)
        except (struct.error, IndexError, KeyError, zlib.error, pa.ArrowException) as error:
            raise Damaged(f"a message at byte {at} of {end} cannot be read: {error}") from error
        yield message


def _message(content: bytes, at: int) -> tuple[Message, int]:
    flags = int.from_bytes(content[at + 36 : at + 40], "big")
    if flags & (SENDER_V6 | BROKER_V6):
        size, magic, _, _, _, offset, _, flags, born, length, body_at = _long_head(content, at, flags)
    else:
        size, magic, _, _, _, offset, _, flags, born, _, _, _, length = HEAD.unpack_from(content, at)
        body_at = at + HEAD.size
    if flags & INNER_BATCH:
        raise Damaged("the topic stores batches (message.type BATCH), which cannot be read by their offsets")
    topic_at = body_at + length
    width = MAGIC[magic]
    properties_at = topic_at + width + int.from_bytes(content[topic_at : topic_at + width], "big") + 2
    long = int.from_bytes(content[properties_at - 2 : properties_at], "big")
    body = content[body_at:topic_at]
    if flags & COMPRESSED:
        body = _CODECS[flags & CODEC](body)
    properties = content[properties_at : properties_at + long]
    if at + size > len(content) or size <= 0:
        raise IndexError(f"its {size} bytes are not all there")
    return Message(offset, flags, born, body, properties), at + size


def _long_head(content: bytes, at: int, flags: int) -> tuple[int, ...]:
    """The head of a message whose sender or broker has an IPv6 address."""
    front = FRONT.unpack_from(content, at)
    at += FRONT.size + (20 if flags & SENDER_V6 else 8) + MIDDLE.size + (20 if flags & BROKER_V6 else 8)
    _, _, length = BACK.unpack_from(content, at)
    return (*front, length, at + BACK.size)


def _by_arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda body: bytes(pa.CompressedInputStream(pa.BufferReader(body), codec).read())


_CODECS: Mapping[int, Callable[[bytes], bytes]] = MappingProxyType(
    {0: zlib.decompress, 0x100: _by_arrow("lz4"), 0x200: _by_arrow("zstd"), 0x300: zlib.decompress}
)


def properties_of(text: bytes) -> dict[str, str]:
    r"""The properties of a message; invalid UTF-8 is replaced.

    >>> properties_of(b"TAGS\x01a\x02KEYS\x01k1\x02")
    {'TAGS': 'a', 'KEYS': 'k1'}
    """
    pairs = (entry.partition(NAME) for entry in text.split(END) if entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def dump_properties(properties: Mapping[str, str]) -> bytes:
    r"""Properties for a message.

    >>> dump_properties({"TAGS": "a"})
    b'TAGS\x01a\x02'
    """
    return b"".join(name.encode() + NAME + value.encode() + END for name, value in properties.items())


def sent(body: bytes, properties: bytes) -> bytes:
    """A message as a part of a batch."""
    size = SENT.size + len(body) + 2 + len(properties)
    return SENT.pack(size, 0, 0, 0, len(body)) + body + len(properties).to_bytes(2, "big") + properties


@lru_cache(maxsize=1 << 16)
def java_hash(text: str) -> int:
    """The hash code of a text in Java.

    >>> java_hash("hello"), java_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    units = text.encode("utf-16-be", errors="surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = (found * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def queue_of(key: str, queues: int) -> int:
    """The index of the queue that Java's SelectMessageQueueByHash chooses for a key."""
    return abs(java_hash(key)) % queues
