"""Cursors: one line of JSON with a version, for compatibility of later releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

VERSION = 1
# The home that a cursor is of; no step has such a name. Earlier releases called it HOME_BEFORE.
HOME, HOME_BEFORE = "@home", "home"
# The key of the version, and that of a step which is called so.
VERSION_KEY, STEP_KEY = "version", "@version"


def load(text: str | None) -> dict[str, Any]:
    """The content of a cursor; {} for None, another version, or invalid text.

    >>> load(dump({"batch": 3}))
    {'batch': 3}
    >>> load(dump({"version": 3}))
    {'version': 3}
    >>> load("not json")
    {}
    """
    try:
        stored = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(stored, dict) or stored.pop(VERSION_KEY, None) != VERSION:
        return {}
    return {VERSION_KEY if key == STEP_KEY else key: value for key, value in stored.items()}


def of_home(text: str | None, root: object) -> dict[str, Any]:
    """The content of a cursor if it is of the home at `root`, or of no home yet; {} if it is of another one.

    >>> of_home(dump({HOME: "/a", "batch": 3}), "/a"), of_home(dump({HOME: "/a", "batch": 3}), "/b")
    ({'@home': '/a', 'batch': 3}, {})
    """
    stored = load(text)
    if isinstance(stored.get(HOME_BEFORE), str):
        stored[HOME] = stored.pop(HOME_BEFORE)
    return stored if stored.get(HOME) in (None, str(root)) else {}


def dump(content: Mapping[str, Any]) -> str:
    """The cursor with this content."""
    named = {STEP_KEY if key == VERSION_KEY else key: value for key, value in content.items()}
    return orjson.dumps({**named, VERSION_KEY: VERSION}, option=orjson.OPT_SORT_KEYS).decode()
