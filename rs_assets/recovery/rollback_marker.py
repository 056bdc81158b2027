"""Marks a rollback (a rewind or a restore) in progress: a small file in the job's folder.

It is written before the first sink changes. A start that finds it is refused, whatever the sinks report: some of them
may have been rolled back, others not. Only a recovery, which a start begins by itself, is repeated by the next start.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

FILE = ".returning"


@dataclass(frozen=True, slots=True)
class Returning:
    """The generation that the rollback begins, its description for people, and whether it is a recovery by a start."""

    generation: int
    what: str
    recovery: bool = False


def begin(job: Path, returning: Returning) -> None:
    """Record the beginning of a rollback."""
    job.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_atomically(job / FILE, orjson.dumps(asdict(returning)))


def under_way(job: Path) -> Returning | None:
    """The rollback in progress, None without one; CheckpointError if the marker is damaged."""
    try:
        return Returning(**orjson.loads((job / FILE).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError) as error:
        raise CheckpointError(
            "the marker of an interrupted rollback is damaged",
            remedy="restore the file from a copy; only it says which generation the rollback began",
            file=job / FILE,
        ) from error


def finish(job: Path) -> None:
    """End the rollback: it is complete, or a new generation makes it unnecessary."""
    (job / FILE).unlink(missing_ok=True)


def refuse(job: Path) -> None:
    """CheckpointError if a rollback was begun and not completed."""
    cut = under_way(job)
    if cut is not None:
        raise CheckpointError(
            f"the last rollback was interrupted: {cut.what}",
            remedy="rewind the pipeline or restore a savepoint again (rs-assets rewind, rs-assets restore),"
            " which completes it; or start over with --new-generation",
            file=job / FILE,
        )
