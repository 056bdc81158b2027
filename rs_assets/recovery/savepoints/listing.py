"""Lists the files of a query that a savepoint needs, while Spark writes and removes files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from rs_assets.errors import CheckpointError
from rs_assets.recovery.rewinding import (
    NUMBER,
    needed_plans,
    partitions_of,
    state_stores,
    state_version,
    unloadable,
)

CHECKPOINT = "checkpoint"
# The folder, next to the checkpoint, of tables that pass rows to other queries; their module lists the needed files.
SHUFFLES = "shuffles"
_LOGS = ("commits", "offsets")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file at the time of listing; `path` is relative to the job's folder (with /)."""

    path: str
    size_bytes: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rpartition("/")[2]

    @property
    def checked_file(self) -> str | None:
        """The path of the file of which this is Hadoop's checksum, None for other files."""
        folder, _, name = self.path.rpartition("/")
        return f"{folder}/{name[1:-4]}" if name.startswith(".") and name.endswith(".crc") else None

    @property
    def number(self) -> int:
        """The batch of a log file, or of its checksum; -1 for other files."""
        name = (self.checked_file or self.path).rpartition("/")[2]
        return int(name) if NUMBER.fullmatch(name) else -1


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """The files to copy of one query, in copy order, up to its last committed batch (-1 for none).

    `partitions` is the number of state partitions of that batch, 0 if unknown. `planned` is the newest planned batch;
    `with_plan`: the copy needs its plan, too.
    """

    checkpoint: str
    last: int
    files: tuple[Listed, ...]
    planned: int
    stateful: bool
    partitions: int = 0
    with_plan: bool = False

    @property
    def required(self) -> list[str]:
        """The files that Spark needs to start again."""
        batches = set() if self.last < 0 else needed_plans(self.last)
        batches |= {self.planned} if self.with_plan and self.planned > self.last else set()
        plans = [f"{self.checkpoint}/offsets/{batch}" for batch in sorted(batches, reverse=True)]
        commits = [f"{self.checkpoint}/commits/{self.last}"] if self.last >= 0 else []
        return [f"{self.checkpoint}/metadata", *commits, *plans]

    def is_passing(self, path: str) -> bool:
        """Whether a file may vanish during the copy: older plans and commits, and checksums."""
        listed = Listed(path, 0, 0)
        is_log = PurePosixPath(path).parent.as_posix() in {f"{self.checkpoint}/{log}" for log in _LOGS}
        return listed.checked_file is not None or (is_log and path not in self.required)

    def is_state(self, path: str) -> bool:
        """Whether it is a file of state; Spark needs only some of them."""
        return path.startswith(f"{self.checkpoint}/state/")

    def problem(self, saved: set[str]) -> str | None:
        """What is missing in the paths `saved` to start again after `last`; None if nothing is."""
        for path in self.required:
            if path not in saved:
                return f"{path} is missing"
        if self.last < 0:
            return f"batch {self.planned} is planned, but none is committed" if self.planned > 0 else None
        root = PurePosixPath(self.checkpoint)
        inside = (PurePosixPath(path) for path in saved if path.startswith(f"{self.checkpoint}/"))
        stores = state_stores((path.relative_to(root) for path in inside), self.partitions)
        if self.stateful and not stores:
            return f"{self.checkpoint}/state is missing"
        lacking = unloadable(stores, self.last + 1)
        return f"{self.checkpoint}/{lacking}" if lacking else None


def list_query(
    job: Path, query: Path, *, stateful: bool = False, until: int | None = None, with_plan: bool = False
) -> QueryFiles:
    """The files of the query in the folder `query` of the job's folder; the query may be running.

    Up to its committed batch `until` (None: the last committed one), and with `with_plan` the plan of the next one. Its
    shuffle tables are omitted.

    Commits are listed first: the plan and state of every listed commit are on disk then. Files of later batches are
    omitted, including those of state: in a copy, which continues with other batches, they would be taken for its own.
    """
    checkpoint = query / CHECKPOINT
    commits = list(_folder(job, checkpoint / "commits"))
    last = max((file.number for file in commits if file.checked_file is None), default=-1) if until is None else until
    offsets = list(_folder(job, checkpoint / "offsets"))
    end = last + 1 if with_plan else last
    logs = [file for file in (*commits, *offsets) if file.number <= end]
    skipped = {query / SHUFFLES, *(checkpoint / log for log in _LOGS)}
    rest = [file for file in _tree(job, query, skipped) if not _is_later_state(file, last + 1)]
    planned = max((file.number for file in offsets), default=-1)
    files = tuple(_settled([*logs, *rest]))
    partitions = partitions_of(checkpoint, last)
    return QueryFiles(checkpoint.relative_to(job).as_posix(), last, files, planned, stateful, partitions, with_plan)


def list_upload(job: Path, query: Path, *, stateful: bool = False) -> QueryFiles:
    """The files of a query, with the plan of the batch that it computes, as a crash at this moment would leave them.

    Of the logs and of the state only what the next start reads: a copy cannot be rewound to earlier batches.
    """
    listed = list_query(job, query, stateful=stateful, with_plan=True)
    return replace(listed, files=tuple(_next_needed(listed)))


def _next_needed(listed: QueryFiles) -> Iterator[Listed]:
    """The files without the logs and the state that only earlier batches need."""
    root = PurePosixPath(listed.checkpoint)
    paths = [PurePosixPath(file.path) for file in listed.files if listed.is_state(file.path)]
    stores = state_stores((path.relative_to(root) for path in paths), listed.partitions)
    first = {place: store.base(listed.last + 1) for place, store in stores.items()}
    logs = {(root / log).as_posix() for log in _LOGS}
    for file in listed.files:
        path = PurePosixPath(file.checked_file or file.path)
        parent = path.parent
        if parent.as_posix() in logs:
            needed = file.number >= listed.last - 1
        elif listed.is_state(file.path):
            version = state_version(path.name)
            needed = version is None or version >= first.get(parent.relative_to(root).as_posix(), 0)
        else:
            needed = True
        if needed:
            yield file


def _is_later_state(file: Listed, version: int) -> bool:
    path = PurePosixPath(file.checked_file or file.path)
    return path.parts[2:4] == (CHECKPOINT, "state") and (state_version(path.name) or 0) > version


def _settled(files: list[Listed]) -> Iterator[Listed]:
    """Without temporary files, and with checksums only of files in the list."""
    there = {file.path for file in files}
    for file in files:
        checked = file.checked_file
        hidden = file.name.startswith(".") if checked is None else checked not in there
        if not hidden and not (checked or file.path).endswith(".tmp"):
            yield file


def _tree(job: Path, folder: Path, skipped: set[Path]) -> Iterator[Listed]:
    """The files in `folder`, those of a folder before its subfolders: a snapshot is written after its tables."""
    yield from _folder(job, folder)
    for name in _names(folder, folders=True):
        if folder / name not in skipped and not name.startswith("."):
            yield from _tree(job, folder / name, skipped)


def _folder(job: Path, folder: Path) -> Iterator[Listed]:
    base = folder.relative_to(job).as_posix()
    for name in _names(folder, folders=False):
        try:
            found = (folder / name).stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield Listed(f"{base}/{name}", found.st_size, found.st_mtime_ns)


def _names(folder: Path, *, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.endswith(".tmp")]
            links = [entry.name for entry in found if entry.is_symlink()]
            names = [entry.name for entry in found if entry.is_dir(follow_symlinks=False) == folders]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(
            f"a folder of the job cannot be listed: {error.strerror}",
            remedy="check the disk and the permissions",
            file=folder,
        ) from error
    odd = links or [name for name in names if not name.isprintable() or "\\" in name]
    if odd:
        raise CheckpointError(
            f"the folder contains {odd[0]!r}, which a savepoint cannot store",
            remedy="a checkpoint has plain files with plain names; move it away",
            file=folder,
        )
    return sorted(names)
