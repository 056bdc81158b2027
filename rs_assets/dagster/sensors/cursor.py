"""Cursors: one line of JSON with a version, for compatibility of later releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

VERSION = 1


def load(text: str | None) -> dict[str, Any]:
    """The content of a cursor; {} for None, another version, or invalid text.

    >>> load(dump({"batch": 3}))
    {'batch': 3}
    >>> load("not json")
    {}
    """
    try:
        stored = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(stored, dict) or stored.pop("version", None) != VERSION:
        return {}
    return stored


def dump(content: Mapping[str, Any]) -> str:
    """The cursor with this content."""
    return orjson.dumps({"version": VERSION, **content}, option=orjson.OPT_SORT_KEYS).decode()
