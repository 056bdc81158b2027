"""What was begun on a job's folder and not completed, so that starts are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rs_assets.errors import CheckpointError
from rs_assets.recovery import forget_marker, restore_marker, rollback_marker


def interrupted(job: Path, pipeline: str) -> Iterator[CheckpointError]:
    """The refusals of the next start of `pipeline`, whose lease must be free: a running operation looks the same."""
    for refuse in (restore_marker.refuse, rollback_marker.refuse, lambda job: forget_marker.refuse(job, pipeline)):
        try:
            refuse(job)
        except CheckpointError as error:
            yield error
