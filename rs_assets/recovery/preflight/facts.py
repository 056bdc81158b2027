"""The content of one query's checkpoint folder, read once and shared by all checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from rs_assets.recovery.preflight.files import bit_flipped, file_names, file_numbers
from rs_assets.recovery.preflight.finding import Expected
from rs_assets.recovery.preflight.parse import (
    Damaged,
    Plan,
    UnknownVersion,
    parse_commit,
    parse_metadata,
    parse_offsets,
)

Content = TypeVar("Content")
State = Literal["sound", "empty", "damaged", "foreign", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Generic[Content]):
    """A file that was read: its content, or the problem with it.

    "foreign" has a format that this release does not know, "unreadable" cannot be read from the disk.
    """

    file: Path
    content: Content | None = None
    state: State = "sound"
    problem: str = ""

    @property
    def spoilt(self) -> bool:
        """True if the content is known to be lost, so that the file can be removed without loss."""
        return self.state in {"empty", "damaged"}


class Facts:
    """The checkpoint folder and its expected content; CheckpointError if a folder cannot be listed."""

    def __init__(self, folder: Path, expected: Expected) -> None:
        self.folder = folder
        self.expected = expected

    @cached_property
    def plans(self) -> Mapping[int, Read[Plan]]:
        """All offsets files by batch, in order."""
        return self._numbered("offsets", parse_offsets)

    @cached_property
    def commits(self) -> Mapping[int, Read[Mapping[str, Any]]]:
        """All commits files by batch, in order."""
        return self._numbered("commits", parse_commit)

    @cached_property
    def metadata(self) -> Read[str] | None:
        """The file with the query's id, None if it is missing."""
        there = "metadata" in file_names(self.folder)
        return read(self.folder / "metadata", parse_metadata) if there else None

    @property
    def last_plan(self) -> int:
        """The newest planned batch, -1 for none."""
        return max(self.plans, default=-1)

    @property
    def last_commit(self) -> int:
        """The newest committed batch, -1 for none."""
        return max(self.commits, default=-1)

    @property
    def newest(self) -> Plan | None:
        """The content of the newest sound offsets file; None without one."""
        sound = (self.plans[batch].content for batch in sorted(self.plans, reverse=True))
        return next((plan for plan in sound if plan is not None), None)

    def _numbered(self, folder: str, parse: Callable[[bytes], Content]) -> Mapping[int, Read[Content]]:
        place = self.folder / folder
        return {number: read(place / str(number), parse) for number in file_numbers(place)}


def read(file: Path, parse: Callable[[bytes], Content]) -> Read[Content]:
    """Read a file, parse it and compare it with its checksum; problems are returned, not raised."""
    try:
        data = file.read_bytes()
        content = parse(data)
        if bit_flipped(file):
            return Read(file=file, state="damaged", problem="differs from its checksum")
    except UnknownVersion as error:
        return Read(file=file, state="foreign", problem=str(error))
    except Damaged as error:
        return Read(file=file, state="damaged" if data else "empty", problem=str(error))
    except OSError as error:
        return Read(file=file, state="unreadable", problem=f"cannot be read: {error.strerror}")
    return Read(file=file, content=content)
