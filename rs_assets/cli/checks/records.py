"""Records in a file that a person has written: a JSON object in each line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rs_assets.errors import ConfigurationError


def records_in(path: Path) -> list[Mapping[str, Any]]:
    """The records of a file; ConfigurationError names the line that is not an object, or says why it is not read."""
    try:
        # A text may hold characters that count as ends of lines elsewhere.
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise _unread(str(path), str(error)) from error
    return [_record(line, f"line {number} of {path}") for number, line in enumerate(lines, start=1) if line.strip()]


def _record(line: str, place: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise _unread(place, f"{error.msg} at column {error.colno}") from error
    if not isinstance(record, dict):
        raise _unread(place, f"{record!r} is not an object")
    return record


def _unread(place: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{place} cannot be read: {why}", remedy="give a file with a JSON object in each line")
