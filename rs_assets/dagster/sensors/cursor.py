"""Cursors: one line of JSON with a version, for compatibility of later releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rs_assets.checkpoint import manifest as manifests
from rs_assets.dagster.place import Place
from rs_assets.errors import RsError
from rs_assets.topology.topology import Topology

VERSION = 1
# The home that a cursor is of; no step has such a name. Earlier releases called it HOME_BEFORE.
HOME, HOME_BEFORE = "@home", "home"
# The pipeline in that home: a home that was removed and made again has another one of the same name.
PIPELINE = "@pipeline"
# The key of the version, and that of earlier releases.
VERSION_KEY, VERSION_KEY_BEFORE = "@version", "version"


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
    if not isinstance(stored, dict):
        return {}
    version = stored.pop(VERSION_KEY if VERSION_KEY in stored else VERSION_KEY_BEFORE, None)
    return stored if version == VERSION else {}


def of_home(text: str | None, place: Place, topology: Topology) -> dict[str, Any]:
    """The content of a cursor for the pipeline in the home at `place`; empty but for these two if it is of another one.

    A cursor without a home, or without a pipeline, may be of any. While the home has none yet, or it cannot be read,
    that of the cursor stays.
    """
    stored, root = load(text), str(place.home.root)
    if isinstance(stored.get(HOME_BEFORE), str):
        stored[HOME] = stored.pop(HOME_BEFORE)
    try:
        manifest = manifests.load(place.job(topology))
    except (RsError, OSError):
        manifest = None
    now = manifest.pipeline_id if manifest is not None else None
    other_home = stored.get(HOME) not in (None, root)
    before = None if other_home else stored.get(PIPELINE)
    if other_home or (before is not None and now not in (None, before)):
        stored = {}
    named = {HOME: root, PIPELINE: now or before}
    return {**stored, **{key: value for key, value in named.items() if value is not None}}


def dump(content: Mapping[str, Any]) -> str:
    """The cursor with this content."""
    return orjson.dumps({VERSION_KEY: VERSION, **content}, option=orjson.OPT_SORT_KEYS).decode()
