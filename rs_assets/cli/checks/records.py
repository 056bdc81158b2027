"""Records in a file that a person has written: a JSON object in each line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rs_assets.common.json_lines import objects_in
from rs_assets.errors import ConfigurationError


def records_in(path: Path) -> list[Mapping[str, Any]]:
    """The records of a file; ConfigurationError names the line that is not an object, or says why it is not read."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise _unread(str(path), str(error)) from error
    return [*objects_in(text, lambda line, why: _unread(f"line {line} of {path}", why))]


def _unread(place: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{place} cannot be read: {why}", remedy="give a file with a JSON object in each line")
