"""Rows of a table on disk: what a log has given once, and may not give again, so that every batch can be read again.

A folder has one Parquet file for each time that changes were taken from the log. A file appears whole, with the
position in the database's log that follows its rows; then the database may forget them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rs_assets.common.files import sync, write_atomically
from rs_assets.connectors.own.lines import SCHEMA
from rs_assets.connectors.own.spool import rows_between
from rs_assets.errors import DataLossError

NAME: Final = re.compile(r"rows-(\d{15})\.parquet")
META: Final = b"rs_landed"
REACHED: Final = "reached.json"
OWNER: Final = "slot.json"
LOST: Final = (
    "put the files of the folder back; or begin a new generation (--new-generation), which begins with the table as it"
    " is then"
)


# A row: its position in the database's log, and its line of JSON.
Line = tuple[int, bytes]
# Rows that are written at a time.
CHUNK: Final = 10_000


class Block(NamedTuple):
    """Rows: the position of each in the database's log, and its line of JSON."""

    positions: pa.Int64Array
    lines: pa.BinaryArray


class Owner(NamedTuple):
    """A slot, the server that has it, and the table (by its number there) whose rows it gives.

    Of a log without slots the name of the slot is empty, and the number 0.

    `facts` are those of the table and the publication when the rows began to land, see `pinned`; None in a folder of an
    earlier release.
    """

    slot: str
    system: str
    table: int
    facts: Mapping[str, Any] | None = None


class Part(NamedTuple):
    """One file: the numbers of its first row, and of the row after its last one."""

    first: int
    end: int
    path: Path
    snapshot: bool


@dataclass(frozen=True, slots=True)
class Landed:
    """The rows below `folder`, numbered from 0; an open part is only seen when it is published."""

    folder: Path

    def paths(self) -> list[tuple[int, Path]]:
        """The number of the first row of each file, and the file, in order."""
        found = ((NAME.fullmatch(file.name), file) for file in self.folder.glob("rows-*.parquet"))
        return sorted((int(name[1]), file) for name, file in found if name)

    def parts(self, since: int = 0) -> list[Part]:
        """The files that have rows from `since` on."""
        paths = self.paths()
        following = [first for first, _ in paths[1:]]
        old = sum(end <= since for end in following)
        return [_part(first, path) for first, path in paths[old:]]

    def end(self) -> int:
        """The number of the next row that lands; 0 for none."""
        paths = self.paths()
        return _part(*paths[-1]).end if paths else 0

    def reached(self) -> int | None:
        """The position in the database's log below which every row has landed; None before the first."""
        paths = self.paths()
        found = [int(_meta(paths[-1][1])["lsn"])] if paths else []
        with contextlib.suppress(FileNotFoundError):
            found.append(int(json.loads((self.folder / REACHED).read_bytes())["lsn"]))
        return max(found, default=None)

    def note_reached(self, lsn: int) -> None:
        """Note a position up to which there were no rows."""
        write_atomically(self.folder / REACHED, json.dumps({"lsn": lsn}).encode())

    def own(self, owner: Owner) -> None:
        """Note, before the slot is made, that it is this folder's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / OWNER, json.dumps(owner._asdict()).encode())

    def owner(self) -> Owner | None:
        """What these are the rows of; None if nothing was begun."""
        with contextlib.suppress(FileNotFoundError):
            return Owner(**json.loads((self.folder / OWNER).read_bytes()))
        return None

    @contextlib.contextmanager
    def landing(self) -> Iterator[LandingPart]:
        """A part that is being written; it stays unseen, and is removed, unless it is published within the block."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = LandingPart(self.folder, self.end())
        try:
            yield part
        finally:
            part.discard()

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows `start` up to `end`; DataLossError if they are not all there."""
        number = start
        for part in self.parts(start):
            if part.end <= number or number >= end:
                continue
            if part.first > number:
                break
            for batch in rows_between(part.path, part.first, number, min(part.end, end), most=CHUNK):
                number += batch.num_rows
                yield batch
        if number < end:
            raise landed_lost(self.folder, number)

    def purge(self, end: int, *, older_than: timedelta) -> None:
        """Remove files whose rows all lie before `end` and that landed longer ago than `older_than`; not the last."""
        before = time.time() - older_than.total_seconds()
        paths = self.paths()
        for (_, path), (following, _) in pairwise(paths):
            if following > end or path.stat().st_mtime >= before:
                return
            path.unlink(missing_ok=True)


class LandingPart:
    """Rows on their way into one file."""

    def __init__(self, folder: Path, first: int) -> None:
        self.first, self.end = first, first
        self._folder = folder
        self._hidden = folder / f".landing-{uuid.uuid4().hex[:12]}.tmp"
        self._writer: pq.ParquetWriter | None = None

    def add(self, split: str, lines: Iterable[tuple[int, bytes]]) -> None:
        """Add rows: the position of each in the database's log, and its line of JSON."""
        offsets, values = zip(*lines, strict=True)
        self.add_block(split, Block(pa.array(offsets, pa.int64()), pa.array(values, pa.binary())))

    def add_block(self, split: str, block: Block) -> None:
        """Add rows that lie together in memory; there may be none."""
        count = len(block.lines)
        if not count:
            return
        self._writer = self._writer or pq.ParquetWriter(self._hidden, SCHEMA, compression="zstd")
        columns = [
            pa.repeat(split, count),
            pa.array(range(self.end, self.end + count), pa.int64()),
            block.positions,
            pc.binary_length(block.lines).cast(pa.int64()),
            block.lines,
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        self.end += count

    def publish(self, lsn: int, *, snapshot: bool = False) -> None:
        """Let the rows appear, on disk for good; `lsn` is the position that follows them.

        Rows that another process has landed meanwhile stay, and these are dropped: both begin at one position.
        """
        if self._writer is None:
            return
        self._writer.add_key_value_metadata({META: json.dumps({"lsn": lsn, "snapshot": snapshot}).encode()})
        self._writer.close()
        sync(self._hidden)
        with contextlib.suppress(FileExistsError):
            os.link(self._hidden, self._folder / f"rows-{self.first:015d}.parquet")
        sync(self._folder)

    def discard(self) -> None:
        """Remove what was written under a hidden name."""
        if self._writer is not None and self._writer.is_open:
            self._writer.close()
        self._hidden.unlink(missing_ok=True)


def add(part: LandingPart, split: str, lines: Iterable[Line]) -> None:
    """Add rows while they come, some at a time."""
    chunk: list[Line] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == CHUNK:
            part.add(split, chunk)
            chunk = []
    if chunk:
        part.add(split, chunk)


def landed_lost(folder: Path, number: int) -> DataLossError:
    """The error for rows that had landed, and are not there any more."""
    return DataLossError(f"row {number} of a table's changes is not among those on disk", remedy=LOST, folder=folder)


def purge_others(folder: Path, *, older_than: timedelta) -> None:
    """Remove files of former generations, in the folders next to `folder`, that landed longer ago than `older_than`."""
    before = time.time() - older_than.total_seconds()
    for other in folder.parent.iterdir():
        if other != folder:
            for _, path in Landed(other).paths():
                if path.stat().st_mtime < before:
                    path.unlink(missing_ok=True)


def _meta(path: Path) -> dict[str, int]:
    return dict(json.loads(pq.read_metadata(path).metadata[META]))


def _part(first: int, path: Path) -> Part:
    found = pq.read_metadata(path)
    return Part(first, first + found.num_rows, path, bool(json.loads(found.metadata[META])["snapshot"]))
