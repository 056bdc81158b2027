"""A return (a rewind or a restore) that is under way: a small file in the job's folder.

It is written before the first sink acts. A start that finds it is refused, whatever the sinks tell: some of them may
have gone back, the others not. Only a recovery, which a start has begun by itself, the next start does again.
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
    """The generation that the return begins, what it does, for people, and whether a start recovers by it."""

    generation: int
    what: str
    recovery: bool = False


def begin(job: Path, returning: Returning) -> None:
    """Note that a return begins."""
    job.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_atomically(job / FILE, orjson.dumps(asdict(returning)))


def under_way(job: Path) -> Returning | None:
    """The return that was begun and not finished, None without one; CheckpointError if its note is damaged."""
    try:
        return Returning(**orjson.loads((job / FILE).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError) as error:
        raise CheckpointError(
            "the note of a return that was cut off is damaged",
            remedy="restore the file from a copy; without it nobody knows which generation the return began",
            file=job / FILE,
        ) from error


def finish(job: Path) -> None:
    """The return is done, or a new generation makes it needless."""
    (job / FILE).unlink(missing_ok=True)


def refuse(job: Path) -> None:
    """CheckpointError if a return was begun and not finished."""
    cut = under_way(job)
    if cut is not None:
        raise CheckpointError(
            f"the last return was cut off: {cut.what}",
            remedy="rewind the pipeline or restore a savepoint once more (rs-assets rewind, rs-assets restore),"
            " which ends it; or begin afresh with --new-generation",
            file=job / FILE,
        )
