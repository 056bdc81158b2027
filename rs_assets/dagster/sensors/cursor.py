"""Cursors: one line of JSON with a version, for compatibility of later releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

VERSION = 1
# The home that a cursor is of.
HOME = "home"


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


def of_home(text: str | None, root: object) -> dict[str, Any]:
    """The content of a cursor if it is of the home at `root`, or of no home yet; {} if it is of another one.

    >>> of_home(dump({HOME: "/a", "batch": 3}), "/a"), of_home(dump({HOME: "/a", "batch": 3}), "/b")
    ({'batch': 3, 'home': '/a'}, {})
    """
    stored = load(text)
    return stored if stored.get(HOME) in (None, str(root)) else {}


def dump(content: Mapping[str, Any]) -> str:
    """The cursor with this content."""
    return orjson.dumps({"version": VERSION, **content}, option=orjson.OPT_SORT_KEYS).decode()
