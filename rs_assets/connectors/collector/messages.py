"""A message that a collector received, as a line of its log."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import orjson
import pyarrow as pa

from rs_assets.errors import DataLossError

# The text of a payload, or its Base64 if it is not UTF-8.
TEXT, BYTES, RECEIVED_AT = "payload", "base64", "received_at"
# What a message may have besides its payload, as in METADATA_TYPES of nodes.py.
ARROW: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        RECEIVED_AT: pa.timestamp("us", tz="UTC"),
        "topic": pa.string(),
        "address": pa.string(),
        "qos": pa.int32(),
        "retain": pa.bool_(),
    }
)


@dataclass(frozen=True, slots=True)
class Message:
    """What came: its payload, and facts about it, of those in ARROW.

    >>> line_of(Message(b"21.5", {"topic": "kitchen"}, datetime(2026, 1, 1, tzinfo=UTC)))
    b'{"received_at":"2026-01-01T00:00:00+00:00","topic":"kitchen","payload":"21.5"}'
    """

    payload: bytes
    facts: Mapping[str, object] = field(default_factory=dict)
    received_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def line_of(message: Message) -> bytes:
    """The line of a message, without its end."""
    try:
        body = {TEXT: message.payload.decode()}
    except UnicodeDecodeError:
        body = {BYTES: base64.b64encode(message.payload).decode()}
    return orjson.dumps({RECEIVED_AT: message.received_at, **message.facts, **body})


def facts_of(line: bytes, *, number: int) -> dict[str, Any]:
    """The facts of a line, and its payload as bytes under TEXT; DataLossError if it is not a line of a collector."""
    try:
        found: dict[str, Any] = orjson.loads(line)
        found[RECEIVED_AT] = datetime.fromisoformat(found[RECEIVED_AT])
        found[TEXT] = base64.b64decode(found[BYTES]) if BYTES in found else found[TEXT].encode()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataLossError(
            f"record {number} of a collector's log is damaged: {line[:100]!r}",
            remedy="put its file back as it was; or begin a new generation (--new-generation) without the file",
        ) from error
    return found
