"""The log of a collector on the disk: numbered records in segment files, which grow at their end only.

A segment is a file of lines that is called by the number of its first record. The collector writes the last one, and
readers find the number of a record by counting lines. So records have their numbers for good, over all restarts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import orjson

from rs_assets.connectors.files.lines.files import LineCounter, plain_blocks
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import DataLossError, SourceReadError

NAME = re.compile(r"records-(\d{15})\.jsonl")
# The file with the name of the log, by which one that was made again is recognised.
IDENTITY = "log.json"


class Segment(NamedTuple):
    """A file of the log, and the number of its first record."""

    first: int
    file: Path


@dataclass(slots=True)
class CollectedLog:
    """The records in `folder`, for readers. It remembers how far it has counted the last segment."""

    folder: Path
    _counted: dict[int, LineCounter] = field(default_factory=dict)

    def name(self) -> str | None:
        """The name of the log, which is its only split; None if no collector has begun it."""
        try:
            return str(orjson.loads((self.folder / IDENTITY).read_bytes())["name"])
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise SourceReadError(
                f"{IDENTITY} of a collector's log is damaged", remedy="put it back", file=self.folder / IDENTITY
            ) from error

    def segments(self) -> list[Segment]:
        """Its files, in order."""
        found = ((NAME.fullmatch(file.name), file) for file in self.folder.glob("records-*.jsonl"))
        return sorted(Segment(int(name[1]), file) for name, file in found if name)

    def begin(self) -> int:
        """The number of the first record that is kept."""
        return next((segment.first for segment in self.segments()), 0)

    def end(self) -> int:
        """The number of the next record. All records before it are on the disk, and stay there after a power cut."""
        segments = self.segments()
        return self._end(segments[-1]) if segments else 0

    def records(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The numbers and lines of the records `start` up to `end`; DataLossError if they are not all there."""
        segments, number = self.segments(), start
        for place, (first, file) in enumerate(segments):
            after = segments[place + 1].first if place + 1 < len(segments) else end
            if number >= end or after <= number:
                continue
            if first > number:
                break
            for line in _lines(file, number - first, min(after, end) - number):
                yield number, line
                number += 1
            if number < min(after, end):
                break
        if number < end:
            raise records_lost(self.folder, number)

    def _end(self, last: Segment) -> int:
        counter = self._counted.get(last.first) or LineCounter(line=0, byte=0)
        with last.file.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > counter.byte:
                # A record that is read must not vanish by a power cut: another one would get its number.
                os.fsync(file.fileno())
                counter = LineCounter(line=counter.line, byte=counter.byte)
                for block in plain_blocks(file, counter.byte, size):
                    counter.feed(block)
        self._counted = {last.first: counter}
        return last.first + counter.line


def records_lost(folder: Path, number: int) -> DataLossError:
    """The error for records that were planned, or acknowledged, and are not in the log any more."""
    return DataLossError(
        f"record {number} is not in the log of its collector",
        remedy=f"put the files of the folder back; or, if they were removed on purpose, {BEGIN_ANEW}",
        folder=folder,
    )


def _lines(file: Path, skipped: int, count: int) -> Iterator[bytes]:
    """`count` lines after the first `skipped` ones, as far as they are complete."""
    with file.open("rb") as source:
        if skipped:
            counter = LineCounter(line=0, byte=0, rows=skipped)
            size = os.fstat(source.fileno()).st_size
            any(counter.feed(block) for block in plain_blocks(source, 0, size))
            if counter.line < skipped:
                return
            source.seek(counter.byte)
        yield from (line[:-1] for line in islice(source, count) if line.endswith(b"\n"))
