"""Offsets: the position in each split, and the ranges between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rs_assets.connectors.files.lines.files import Identity
from rs_assets.errors import CheckpointError, ConfigurationError

VERSION = 1


class Ended(StrEnum):
    """Why a split gets no more data: its file is GONE, was REPLACED in place, or is a COMPLETE archive."""

    GONE = "gone"
    REPLACED = "replaced"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Progress in one incarnation: `line` lines and `byte` bytes are consumed; `size` is an archive's size on disk."""

    file: str
    identity: Identity
    line: int
    byte: int
    size: int | None = None
    ended: Ended | None = None


Offsets = Mapping[str, Split]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffset:
    """The position in one split: `line` lines, which are `byte` bytes of the (decompressed) file."""

    split: str
    file: str
    line: int
    byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """Bytes `start_byte` to `end_byte` of one split, beginning with line `start_line`; None: to the end."""

    file: str
    split: str
    start_line: int = 1
    start_byte: int = 0
    end_byte: int | None = None
    end_line: int | None = None
    identity: Identity | None = None

    def dump(self) -> dict[str, object]:
        """The range as JSON-ready data, in the form of the option `ranges`."""
        return {
            "file": self.file,
            "split": self.split,
            "id": None if self.identity is None else str(self.identity),
            "start_line": self.start_line,
            "start_byte": self.start_byte,
            "end_byte": self.end_byte,
            "end_line": self.end_line,
        }

    @classmethod
    def load(cls, data: Mapping[str, object]) -> LineRange:
        """The range from the output of `dump`, or from a hand-written form that needs only `file`.

        >>> LineRange.load({"file": "/logs/a.log"}).split
        'a.log'
        """
        known = {"file", "split", "id", "start_line", "start_byte", "end_byte", "end_line"}
        file = data.get("file")
        numbers = {key: data[key] for key in ("start_line", "start_byte", "end_byte", "end_line") if key in data}
        fits = all(type(value) is int and value >= 0 for value in numbers.values() if value is not None)
        if not isinstance(file, str) or not fits or set(data) - known:
            raise ConfigurationError(
                f"{dict(data)!r} is not a range of lines", remedy=f"use {', '.join(sorted(known))}"
            )
        identity = Identity.parse(str(data["id"])) if data.get("id") else None
        split = str(data.get("split") or Path(file).name)
        return cls(file=file, split=split, identity=identity, **numbers)  # type: ignore[arg-type]


def dump_offsets(offsets: Offsets) -> dict[str, object]:
    """The offsets as JSON-ready data; equal offsets give equal text, splits stay in the order of discovery."""
    splits: dict[str, object] = {}
    for name, split in offsets.items():
        entry: dict[str, object] = {"file": split.file, "id": str(split.identity), "line": split.line}
        entry["byte"] = split.byte
        if split.size is not None:
            entry["size"] = split.size
        if split.ended is not None:
            entry["ended"] = split.ended.value
        splits[name] = entry
    return {"version": VERSION, "splits": splits}


def load_offsets(data: Mapping[str, object] | str | None) -> dict[str, Split]:
    """The offsets from the output of `dump_offsets`, as data or JSON text (None: the beginning); else CheckpointError.

    >>> load_offsets('{"version": 9}')
    Traceback (most recent call last):
    rs_assets.errors.CheckpointError: these are not offsets of version 1: {"version": 9}
    """
    if data is None:
        return {}
    try:
        body: Any = json.loads(data) if isinstance(data, str) else data
        if body["version"] == VERSION:
            return {name: _load_split(entry) for name, entry in body["splits"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        # Reported below: whatever is wrong, these are not our offsets.
        pass
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    raise CheckpointError(f"these are not offsets of version {VERSION}: {text:.300}")


def _load_split(entry: Mapping[str, object]) -> Split:
    line, byte, size, ended = entry["line"], entry["byte"], entry.get("size"), entry.get("ended")
    if type(line) is not int or type(byte) is not int or not (size is None or type(size) is int):
        raise ValueError(entry)
    return Split(
        file=str(entry["file"]),
        identity=Identity.parse(str(entry["id"])),
        line=line,
        byte=byte,
        size=size,
        ended=None if ended is None else Ended(str(ended)),
    )


def splits_of(data: Mapping[str, object] | str) -> list[SplitOffset]:
    """Every split in the offsets and its position.

    >>> splits_of('{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 3, "byte": 40}}}')
    [SplitOffset(split='a', file='/x/a', line=3, byte=40)]
    """
    return [
        SplitOffset(split=name, file=split.file, line=split.line, byte=split.byte)
        for name, split in load_offsets(data).items()
    ]


def ranges_between(
    start: Mapping[str, object] | str | None, end: Mapping[str, object] | str
) -> list[dict[str, object]]:
    """The ranges planned between two offsets, in the form of the option `ranges`; start None is the beginning.

    >>> old = '{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 3, "byte": 40}}}'
    >>> new = '{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 5, "byte": 60}}}'
    >>> [(r["start_line"], r["start_byte"], r["end_byte"]) for r in ranges_between(old, new)]
    [(4, 40, 60)]
    """
    before = load_offsets(start)
    found = []
    for name, split in load_offsets(end).items():
        line, byte = (before[name].line, before[name].byte) if name in before else (0, 0)
        if split.byte > byte:
            found.append(
                LineRange(
                    file=split.file,
                    split=name,
                    identity=split.identity,
                    start_line=line + 1,
                    start_byte=byte,
                    end_byte=split.byte,
                    end_line=split.line,
                ).dump()
            )
    return found
