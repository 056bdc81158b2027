"""Which batch folders a return of a file sink keeps and which it removes; pure, except for one small file.

A return renames the folders that it keeps, so that they belong to its new generation. Removed folders cannot be
restored, so the removal is recorded: going forward again is refused if that would need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.connectors.generations import LAST, Lineage, Point
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError

# Readers of the batches ignore this name.
NOTES = ".rs_returns"
AFRESH = "begin a new generation (--new-generation)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A return: `writer` began a generation with the batches of an earlier one up to `batch`.

    `undone` is the first batch that was removed for it, None if none was.
    """

    writer: str
    begun: int
    generation: int
    batch: int
    undone: int | None = None


@dataclass(frozen=True, slots=True)
class Folders:
    """The batches that have a folder, and the returns so far."""

    batches: Sequence[Point]
    returns: Sequence[Return]

    @property
    def lineage(self) -> Lineage:
        """The point where each generation began."""
        return Lineage({each.begun: Point(each.generation, each.batch) for each in self.returns})

    @property
    def now(self) -> int:
        """The generation of the folders, 0 if there are none."""
        return max((*(batch.generation for batch in self.batches), *(r.begun for r in self.returns)), default=0)

    def last_batch(self, generation: int) -> int:
        """The last batch of a generation that is known to have been here, -1 for none."""
        began = self.lineage.returns.get(generation)
        own = (batch.batch for batch in self.batches if batch.generation == generation)
        return max((*own, began.batch if began else -1))

    def kept(self, point: Point, had: int) -> int:
        """The last batch whose folder belongs to `point`, -1 for none; ValueError with the reason if rows are gone."""
        lineage = self.lineage
        path, here = lineage.path(point), lineage.path(Point(self.now, LAST))
        common = next((generation for generation in path if generation in here), None)
        if self.now and common is None:
            if point.generation < self.now or had >= 0:
                raise ValueError(f"generation {self.now} has replaced the files of generation {point.generation}")
            return -1
        last = min(path[common], here[common]) if common is not None else -1
        gone = [r.undone for r in self.returns if r.undone is not None and r.begun > point.generation]
        if last < point.batch and any(undone <= point.batch for undone in gone):
            raise ValueError(f"batches from {min(gone)} on were removed when the pipeline went back")
        known = max(last, self.last_batch(point.generation))
        if known < min(point.batch, had):
            raise ValueError(f"they end at {f'batch {known}' if known >= 0 else 'no batch'} and had batch {had}")
        return last

    def stays(self, folder: Point, last: int) -> bool:
        """Whether a folder belongs to the batches up to `last`."""
        here = self.lineage.path(Point(self.now, LAST))
        return folder.batch <= min(last, here.get(folder.generation, -1))


def planned(folders: Folders, kept: BatchMark, had: int, path: str) -> int:
    """`Folders.kept`, with a SinkError for users."""
    try:
        return folders.kept(Point(kept.generation, kept.batch_id), had)
    except ValueError as refused:
        raise SinkError(
            f"the files cannot be brought to batch {kept.batch_id} of generation {kept.generation}: {refused}",
            remedy=f"go to another batch or savepoint, put the files back, or {AFRESH}",
            step=kept.sink,
            path=path,
        ) from refused


def noted_returns(folder: Path, mark: BatchMark) -> list[Return]:
    """All returns recorded in `folder`, oldest first; SinkError if the file is damaged."""
    try:
        return [Return(**each) for each in orjson.loads((folder / NOTES).read_bytes())]
    except FileNotFoundError:
        return []
    except (orjson.JSONDecodeError, TypeError) as error:
        raise SinkError(
            "the record of returns in the folder is damaged",
            remedy=f"restore the file from a copy, or {AFRESH}",
            step=mark.sink,
            file=folder / NOTES,
        ) from error


def note_return(folder: Path, mark: BatchMark, made: Return) -> None:
    """Record a return before it is carried out; a repeated one replaces itself."""
    known = noted_returns(folder, mark)
    same = [each for each in known if (each.writer, each.begun) == (made.writer, made.begun)]
    undone = min((each.undone for each in (*same, made) if each.undone is not None), default=None)
    entries = [*(each for each in known if each not in same), replace(made, undone=undone)]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / NOTES, orjson.dumps([asdict(each) for each in entries]))
