"""Who made a version of a table: what our commits leave in its history, and how it is read again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from resources.sink.base import BatchMark

Entry = Mapping[str, Any]
# `BatchMark.writer`: pipeline, generation, sink.
WRITER = re.compile(r"([^/]+)/g([0-9]+)/([^/]+)")


def written_by(mark: BatchMark) -> dict[str, str]:
    """What the commit of a batch leaves."""
    return {"rs.writer": mark.writer, "rs.batch_id": str(mark.batch_id)}


def as_user_metadata(mark: BatchMark) -> str:
    """The same for the connector inside Spark, which has one field of text for it."""
    return json.dumps(written_by(mark))


def noted(entry: Entry) -> Entry:
    """An entry of a history with what commits of either connector left."""
    try:
        told = json.loads(entry.get("userMetadata") or "{}")
    except (TypeError, ValueError):
        return entry
    return {**entry, **told} if isinstance(told, dict) else entry
