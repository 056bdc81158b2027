"""Removes all but the newest batch from the checkpoint of a stopped query, so that no earlier state can be read."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rs_assets.errors import CheckpointError
from rs_assets.recovery.rewinding import (
    needed_plans,
    numbers,
    partitions_of,
    remove_with_sum,
    state_stores,
    state_version,
    unloadable,
)

# The folders of a state store with the tables that its snapshots name.
TABLES = ("SSTs", "logs")


def earlier_files(checkpoint: Path, batch: int) -> list[Path]:
    """The files of state and of the log that belong to batches before `batch`, the last committed one, alone.

    Its own plan and the one before it stay, which Spark needs to start. State is among them only if each store has a
    snapshot of this batch, as after its state was written again. CheckpointError for a damaged snapshot.
    """
    state = _state(checkpoint)
    versions = _earlier(state, batch)
    if complete_alone(checkpoint, batch):
        state, versions = [], []
    kept = min(needed_plans(batch))
    # Batch 0 needs no plan before it: without its commit nothing goes back to it.
    firsts = {"commits": batch if batch == 1 else kept, "offsets": kept}
    plans = [
        checkpoint / folder / str(number)
        for folder, first in firsts.items()
        for number in sorted(numbers(checkpoint / folder))
        if number < first
    ]
    return [*versions, *_unnamed(state, set(versions)), *plans]


def complete_alone(checkpoint: Path, batch: int) -> str:
    """What earlier state the stores need for the state of `batch`, "" for none: each has a snapshot of it."""
    state = _state(checkpoint)
    left = [PurePosixPath(path.relative_to(checkpoint).as_posix()) for path in {*state} - {*_earlier(state, batch)}]
    missing = unloadable(state_stores(left, partitions_of(checkpoint, batch)), batch + 1)
    return "" if missing is None else f"needs earlier state: {missing}"


def remove_earlier(checkpoint: Path, batch: int) -> int:
    """Remove them; the query must be stopped, and its stores unloaded. Returns how many files there were."""
    files = earlier_files(checkpoint, batch)
    try:
        for file in files:
            remove_with_sum(file)
    except OSError as error:
        raise CheckpointError(
            f"earlier state cannot be removed: {error.strerror}",
            remedy="check the disk and the permissions, then forget the keys again",
            file=checkpoint,
        ) from error
    return len(files)


def _state(checkpoint: Path) -> list[Path]:
    return [path for path in (checkpoint / "state").rglob("*") if path.is_file()]


def _earlier(state: list[Path], batch: int) -> list[Path]:
    """Those of versions before that of `batch`, which is one more than its number."""
    return [path for path in state if 0 < (state_version(path.name) or 0) <= batch]


def _unnamed(state: list[Path], going: set[Path]) -> Iterator[Path]:
    """The tables that no snapshot names which stays."""
    tables = [path for path in state if path.parent.name in TABLES and not path.name.startswith(".")]
    listings: dict[Path, str] = {}
    for path in tables:
        store = path.parent.parent
        if store not in listings:
            listings[store] = "".join(_listing(file) for file in store.glob("*.zip") if file not in going)
        if f'"{path.name}"' not in listings[store]:
            yield path


def _listing(snapshot: Path) -> str:
    """The list of its tables, as JSON."""
    try:
        with zipfile.ZipFile(snapshot) as archive:
            return archive.read("metadata").decode()
    except (zipfile.BadZipFile, KeyError, OSError, ValueError) as error:
        raise CheckpointError(
            "a snapshot of state cannot be read",
            remedy="look for damage: rs-assets verify; restore the file from a copy of the checkpoint",
            file=snapshot,
        ) from error
