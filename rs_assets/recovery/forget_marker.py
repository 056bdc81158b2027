"""Marks that keys are being forgotten: a small file in the job's folder, without the keys themselves.

There are two parts. First the state of all queries is written again, as one batch more of each: as long as the marker
is not `switched`, nothing else has changed, and whoever holds the lease next takes these batches away. Then rows go
everywhere, which is not undone: starts are refused until the same keys are forgotten again, which completes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError
from rs_assets.recovery.rewinding import rewind

FILE = ".forgetting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """The digests of the keys by field, made with `salt`.

    `batches` has the batch as which the state in a checkpoint, a folder below the job's, is written again; `switched`
    says that all state has been written, so that its rows are gone.
    """

    salt: str
    digests: Mapping[str, tuple[str, ...]]
    batches: Mapping[str, int] = field(default_factory=dict)
    switched: bool = False


def note(job: Path, forgetting: Forgetting) -> None:
    """Record it as it is now, in one step."""
    write_atomically(job / FILE, orjson.dumps(asdict(forgetting)))


def under_way(job: Path) -> Forgetting | None:
    """What was begun and not completed, None if nothing was; CheckpointError if the marker is damaged."""
    try:
        found = orjson.loads((job / FILE).read_bytes())
        digests = {name: tuple(each) for name, each in found["digests"].items()}
        return Forgetting(
            salt=found["salt"], digests=digests, batches=dict(found["batches"]), switched=bool(found["switched"])
        )
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            "the marker of keys that are being forgotten is damaged",
            remedy="restore the file from a copy; or start over with --new-generation, which reads all records again",
            file=job / FILE,
        ) from error


def finish(job: Path) -> None:
    """End it: it is complete, or a new generation makes it unnecessary."""
    (job / FILE).unlink(missing_ok=True)


def undo(job: Path) -> None:
    """Undo what was only prepared, under the lease; nothing if it is not so.

    State that was written again is removed, so that the last batch is the one before. CheckpointError if the disk
    refuses it; the next call repeats it.
    """
    cut = under_way(job)
    if cut is not None and not cut.switched:
        for folder, batch in cut.batches.items():
            rewind(job / folder, batch - 1)
        finish(job)


def refuse(job: Path, pipeline: str) -> None:
    """CheckpointError if keys were being forgotten when the process ended."""
    cut = under_way(job)
    if cut is None:
        return
    if not cut.switched:
        raise CheckpointError(
            "keys were to be forgotten, which was interrupted before any row was removed",
            remedy=f"run the pipeline, or forget the keys again: rs-assets forget {pipeline} FIELD=VALUE",
            file=job / FILE,
        )
    raise CheckpointError(
        "keys were being forgotten, which was interrupted: a part of their rows is still there",
        remedy=f"forget the same keys again, which completes it: rs-assets forget {pipeline} FIELD=VALUE;"
        " or start over with --new-generation, which reads all records again",
        file=job / FILE,
    )
