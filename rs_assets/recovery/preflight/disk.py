"""Checks of the checkpoint's disk: free space, and files of killed runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError
from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.finding import Finding

MIB = 1 << 20
LEAST_FREE_BYTES, LOW_FREE_BYTES = 64 * MIB, 1024 * MIB


def check_room(facts: Facts) -> Iterator[Finding]:
    """`disk_full`: the disk has room: less than 64 MiB is an error, less than 1 GiB a warning."""
    place = next(path for path in (facts.folder, *facts.folder.absolute().parents) if path.is_dir())
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        raise CheckpointError(f"the disk does not answer: {error.strerror}", file=place) from error
    if free < LOW_FREE_BYTES:
        yield Finding(
            code="disk_full",
            severity="error" if free < LEAST_FREE_BYTES else "warning",
            file=facts.folder,
            meaning=f"is on a disk with {free // MIB} MiB free: a batch that fills it fails",
            remedy="make room on the disk",
        )


def check_leftovers(facts: Facts) -> Iterator[Finding]:
    """Temporary files of killed runs are harmless; a start removes only those of the log."""
    found = leftovers(facts.folder)
    if found:
        yield Finding(
            code="leftover",
            severity="warning",
            file=facts.folder,
            meaning=f"holds {count_of(len(found), 'temporary file')} of runs that were killed",
            remedy="remove them while no run is active",
            repair="clean_temporaries",
        )


def leftovers(folder: Path) -> list[Path]:
    """The temporary files in a checkpoint and their checksums, in order; links are not followed."""
    found = [
        Path(place) / name
        for place, _, names in os.walk(folder)
        for name in names
        if name.endswith((".tmp", ".tmp.crc"))
    ]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())
