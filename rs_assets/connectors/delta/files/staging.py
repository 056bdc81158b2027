"""Staging folders for batches inside a table's folder, and the removal of files that were never committed.

The vacuum of every engine ignores names with an underscore. Files of a table must not be there, since no vacuum would
ever remove them.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from rs_assets.connectors.sink import BatchMark

STAGING = "_rs_staged"
# What follows the name of a folder that is being removed; no such name has it.
REMOVED = "~"
# Younger files may belong to a commit in progress, whatever retention is configured.
YOUNG = timedelta(hours=1)


def staging_of(root: Path, mark: BatchMark) -> Path:
    """The folder in which a sink of one pipeline stages its batches."""
    return root / STAGING / re.sub(r"[^A-Za-z0-9_.-]", "_", f"{mark.pipeline_id}-{mark.sink}")


def clear_staging(root: Path, mark: BatchMark) -> None:
    """Remove what earlier runs of this sink staged and never committed.

    We hold its lease, but a copy of the home may write at the same moment: its folder goes as a whole, at once. Else it
    could list one without files, and take its batch for an empty one.
    """
    staged = staging_of(root, mark)
    removed = staged.with_name(f"{staged.name}{REMOVED}{uuid.uuid4().hex[:8]}")
    with suppress(OSError):
        staged.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


def is_staged_by(name: str, mark: BatchMark) -> bool:
    """Whether a file at a path relative to its table is in the folder of a sink, also in one that is being removed.

    >>> is_staged_by("_rs_staged/p1-rows~0a1b2c3d/g0001/part.parquet", BatchMark("p1", 1, "rows", 0))
    True
    """
    folder, _, rest = name.removeprefix(f"{STAGING}/").partition("/")
    return bool(rest) and folder.partition(REMOVED)[0] == staging_of(Path(), mark).name


def old_folders(root: Path, *, age: timedelta) -> list[Path]:
    """The folders in a table's folder, deepest first, without changes for `age`; hidden ones are left out."""
    limit = time.time() - age.total_seconds()
    places = (Path(folder) for folder, _, _ in os.walk(root, topdown=False))
    inner = (place for place in places if place != root and not _hidden(place.relative_to(root)))
    return [place for place in inner if _touched(place) < limit]


def clear_folders(root: Path, old: list[Path], *, age: timedelta) -> int:
    """Remove what no vacuum removes, and return how many files were deleted.

    These are batches that were not touched for `age`, checksums without a file, and now empty folders of `old`.
    """
    limit = time.time() - age.total_seconds()
    removed = 0
    for batch in root.glob(f"{STAGING}/*/*"):
        if max(map(_touched, (batch, *batch.rglob("*")))) < limit:
            removed += sum(1 for file in batch.rglob("*") if file.is_file())
            shutil.rmtree(batch, ignore_errors=True)
    for place in (root, *old):
        removed += _clear_checksums(place, limit)
    for place in old:
        with suppress(OSError):
            # Unless it is not empty.
            place.rmdir()
    return removed


def _clear_checksums(place: Path, limit: float) -> int:
    lone = [f for f in place.glob(".*.crc") if not (place / f.name[1:].removesuffix(".crc")).exists()]
    old = [file for file in lone if _touched(file) < limit]
    for file in old:
        file.unlink(missing_ok=True)
    return len(old)


def _hidden(inner: Path) -> bool:
    return inner.parts[0].startswith(("_", "."))


def _touched(path: Path) -> float:
    """When `path` was last changed; now, if it disappears at this moment."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
