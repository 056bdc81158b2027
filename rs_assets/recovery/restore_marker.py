"""Marks a restore, fork or recovery in progress: a small file in the job's folder, with the savepoint's id.

It is there while generations are exchanged. That of a fork is there while files are copied, too: a start would begin
without them. A start that finds it is refused; only a recovery from uploads is repeated by the next start.
"""

from __future__ import annotations

from pathlib import Path

from rs_assets.errors import CheckpointError

FILE = ".restoring"
FORK = "fork"
RECOVERY = "recovery"


def under_way(job: Path) -> tuple[str, str]:
    """The operation in progress (restore, fork, recovery) and the id of its savepoint; empty texts without one."""
    mark = job / FILE
    if not mark.exists():
        return "", ""
    what, _, savepoint = mark.read_text(errors="replace")[:100].rpartition(" ")
    return what or "restore", savepoint


def refuse(job: Path) -> None:
    """CheckpointError if a restore, fork or recovery was begun and not completed."""
    what, savepoint = under_way(job)
    if what == RECOVERY:
        raise CheckpointError(
            "the recovery of the job from its uploads was interrupted",
            remedy="start it again with uploads: RS_UPLOAD=1",
            file=job / FILE,
        )
    if what:
        raise CheckpointError(
            f"the last {what} of the job was interrupted",
            remedy=f"{what} the savepoint again: {savepoint}",
            file=job / FILE,
        )
