"""Rewinds one query to an earlier batch, as far back as the files of its state allow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path, PurePosixPath

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.errors import CheckpointError

# Spark never writes leading zeros, or digits of other scripts.
NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
# RocksDB writes changelogs and archives, the in-memory store deltas and snapshots; a retry may add an id.
_VERSION = re.compile(r"([1-9][0-9]{0,17})(?:_[0-9A-Za-z-]+)?\.(zip|snapshot|changelog|delta)")
_SNAPSHOTS = frozenset({"zip", "snapshot"})
# Folders of a store with the tables of its snapshots.
_TABLES = frozenset({"SSTs", "logs"})


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """The versions of one state store that have a snapshot, and those that have a changelog."""

    snapshots: set[int] = field(default_factory=set)
    changes: set[int] = field(default_factory=set)

    def base(self, version: int) -> int:
        """The snapshot from which `version` is rebuilt, 0 for none.

        >>> StoreVersions({3, 6}, {1, 2, 3}).base(5)
        3
        """
        return max((number for number in self.snapshots if number <= version), default=0)

    def first_missing(self, version: int) -> int | None:
        """The first change that is missing to rebuild `version`, None if it can be rebuilt.

        >>> StoreVersions({3}, {1, 2, 3, 5}).first_missing(5)
        4
        """
        base = self.base(version)
        return next((number for number in range(base + 1, version + 1) if number not in self.changes), None)


def state_version(name: str) -> int | None:
    """The version that a file of a state store belongs to, None for a file of another kind.

    >>> state_version("12.changelog"), state_version("12.zip"), state_version("schema")
    (12, 12, None)
    """
    match = _VERSION.fullmatch(name)
    return int(match[1]) if match else None


def state_stores(paths: Iterable[PurePosixPath], partitions: int = 0) -> Mapping[str, StoreVersions]:
    """The versions in each store of each partition, by folder, from the files and folders of a checkpoint.

    `paths` are relative to the checkpoint. Partitions and stores that exist only in other partitions of the same
    operator are included, empty. With `partitions` (0: no bound) later partitions are omitted: a rescale to fewer
    leaves their folders, which are no longer written.

    >>> found = state_stores([PurePosixPath("state/0/1/1.changelog")])
    >>> {place: store.changes for place, store in found.items()}
    {'state/0/0': set(), 'state/0/1': {1}}
    >>> list(state_stores([PurePosixPath("state/0/0/1.changelog"), PurePosixPath("state/0/1/1.changelog")], 1))
    ['state/0/0']
    """
    found: dict[tuple[int, int, str], StoreVersions] = {}
    counts: dict[int, int] = {}
    for path in paths:
        match path.parts:
            case ("state", operator, partition, *rest) if NUMBER.fullmatch(operator) and NUMBER.fullmatch(partition):
                number = int(operator)
                if not partitions or int(partition) < partitions:
                    counts[number] = max(counts.get(number, 0), int(partition) + 1)
                    _note(found, (number, int(partition)), rest)
    stores: dict[int, set[str]] = {}
    for operator_id, _, store in found:
        stores.setdefault(operator_id, set()).add(store)
    return {
        str(PurePosixPath("state", str(number), str(partition), store)): found.get(
            (number, partition, store), StoreVersions()
        )
        for number, count in sorted(counts.items())
        for partition, store in product(range(count), sorted(stores.get(number, {""})))
    }


def _note(found: dict[tuple[int, int, str], StoreVersions], place: tuple[int, int], rest: list[str]) -> None:
    """Add one file of a partition; `rest` is its path in there, preceded by the name of a store if it has one."""
    store, name = ("", *rest)[-2:] if 0 < len(rest) < 3 else ("", "")
    match = _VERSION.fullmatch(name)
    if match and store not in _TABLES:
        versions = found.setdefault((*place, store), StoreVersions())
        kind = versions.snapshots if match[2] in _SNAPSHOTS else versions.changes
        kind.add(int(match[1]))


def unloadable(stores: Mapping[str, StoreVersions], version: int) -> str | None:
    """The reason why the state of `version` cannot be rebuilt, for people; None if it can."""
    for place, store in stores.items():
        missing = store.first_missing(version)
        if missing is not None:
            return f"{place} lacks version {missing}"
    return None


def rewindable(checkpoint: Path) -> range:
    """The batches that `rewind` can go back to, without a gap up to the newest; empty if there is none."""
    commits, offsets = numbers(checkpoint / "commits"), numbers(checkpoint / "offsets")
    stores = _Stores(checkpoint)
    good = {
        batch
        for batch in commits & offsets
        if needed_plans(batch) <= offsets and unloadable(stores.of(batch), batch + 1) is None
    }
    last = max(good, default=-1)
    first = last
    while first - 1 in good:
        first -= 1
    return range(first, last + 1) if good else range(0)


def rewind(checkpoint: Path, to_batch: int) -> tuple[int, ...]:
    """Make `to_batch` the last committed batch of a query; returns the removed batches, newest first.

    The query must be stopped, and its state stores unloaded: the process has ended, or Spark's `StateStore.stop()` was
    called. The store of a stopped query uploads a snapshot at its next maintenance, which Spark would later load
    instead of the state of the new batches. Sinks are not changed: they keep their rows of the removed batches, and
    skip batches of the same generation that they know. CheckpointError, without any change, if the files do not reach
    back to `to_batch`. An interrupted rewind leaves files that Spark refuses or continues from; repeating it completes
    it.
    """
    _refuse(checkpoint, to_batch)
    commits, offsets = checkpoint / "commits", checkpoint / "offsets"
    newer = sorted((n for n in numbers(commits) | numbers(offsets) if n > to_batch), reverse=True)
    try:
        # State first: a snapshot of a batch that will be computed differently would be loaded after a later start.
        for file in _newer_state(checkpoint, to_batch + 1):
            remove_with_sum(file)
        # One batch at a time, so that there is never more than one plan without a commit.
        for batch in newer:
            remove_with_sum(commits / str(batch))
            remove_with_sum(offsets / str(batch))
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint cannot be rewound: {error.strerror}",
            remedy="check the disk and the permissions, then rewind again",
            file=checkpoint,
        ) from error
    return tuple(newer)


def needed_plans(batch: int) -> set[int]:
    """The plans that Spark needs to start after a committed batch: its own and the previous one.

    >>> needed_plans(0), needed_plans(7)
    ({0}, {6, 7})
    """
    return set(range(max(0, batch - 1), batch + 1))


def numbers(folder: Path) -> set[int]:
    """The files of `folder` that are named by a number; empty if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return {int(entry.name) for entry in entries if NUMBER.fullmatch(entry.name) and entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def remove_with_sum(file: Path) -> None:
    """Remove a file of a checkpoint and Hadoop's checksum of it; both may be missing."""
    # The checksum first: a leftover checksum would not match a new file of that name.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def partitions_of(checkpoint: Path, batch: int) -> int:
    """The number of state partitions that a batch was planned with, 0 if its plan lacks it or cannot be read."""
    try:
        return CheckpointLog(checkpoint).partitions(batch)
    except (CheckpointError, OSError, ValueError, IndexError):
        return 0


class _Stores:
    """The state stores of a checkpoint, as seen by a batch."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        found = (checkpoint / "state").rglob("*")
        self._paths = [PurePosixPath(path.relative_to(checkpoint).as_posix()) for path in found]
        self._by_partitions: dict[int, Mapping[str, StoreVersions]] = {}

    def of(self, batch: int) -> Mapping[str, StoreVersions]:
        """The versions in each store of the partitions that the batch was planned with."""
        number = partitions_of(self.checkpoint, batch)
        if number not in self._by_partitions:
            self._by_partitions[number] = state_stores(self._paths, number)
        return self._by_partitions[number]


def _newer_state(checkpoint: Path, version: int) -> Iterator[Path]:
    """The files of state after `version`, newest first."""
    found = ((state_version(path.name) or 0, path) for path in (checkpoint / "state").rglob("*"))
    yield from (path for number, path in sorted(found, reverse=True) if number > version)


def _refuse(checkpoint: Path, to_batch: int) -> None:
    """CheckpointError if the query cannot go back to `to_batch`, with the batches that it can go back to."""
    for folder, needed in (("commits", {to_batch}), ("offsets", needed_plans(to_batch))):
        missing = needed - numbers(checkpoint / folder)
        if missing:
            raise _impossible(checkpoint, to_batch, f"{folder}/{max(missing)} is missing")
    problem = unloadable(_Stores(checkpoint).of(to_batch), to_batch + 1)
    if problem is not None:
        raise _impossible(checkpoint, to_batch, f"{problem}, so state {to_batch + 1} cannot be rebuilt")


def _impossible(checkpoint: Path, to_batch: int, reason: str) -> CheckpointError:
    possible = rewindable(checkpoint)
    span = f"the batches {possible[0]} to {possible[-1]}" if possible else "no batch"
    return CheckpointError(
        f"cannot go back to batch {to_batch}: {reason}",
        remedy=f"the files reach back to {span}; restore a savepoint to go further",
        checkpoint=checkpoint,
    )
