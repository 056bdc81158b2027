"""Marks that keys are being forgotten: a small file in the job's folder, without the keys themselves.

It is written before the first row goes. A start that finds it is refused, since a part of the rows may be gone and the
others not; forgetting the same keys again completes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

FILE = ".forgetting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """The digests of the keys by field, made with `salt`, and the batch that each query's state is written as."""

    salt: str
    digests: Mapping[str, tuple[str, ...]]
    batches: Mapping[str, int] = field(default_factory=dict)


def begin(job: Path, forgetting: Forgetting) -> None:
    """Record that it is in progress; also to add batches."""
    write_atomically(job / FILE, orjson.dumps(asdict(forgetting)))


def under_way(job: Path) -> Forgetting | None:
    """What was begun and not completed, None if nothing was; CheckpointError if the marker is damaged."""
    try:
        found = orjson.loads((job / FILE).read_bytes())
        digests = {name: tuple(each) for name, each in found["digests"].items()}
        return Forgetting(salt=found["salt"], digests=digests, batches=found["batches"])
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            "the marker of keys that are being forgotten is damaged",
            remedy="remove the file, then forget the keys again",
            file=job / FILE,
        ) from error


def finish(job: Path) -> None:
    """End it: it is complete, or a new generation makes it unnecessary."""
    (job / FILE).unlink(missing_ok=True)


def refuse(job: Path, pipeline: str) -> None:
    """CheckpointError if keys were being forgotten when the process ended."""
    if under_way(job) is not None:
        raise CheckpointError(
            "keys were being forgotten, which was interrupted: a part of their rows is still there",
            remedy=f"forget the same keys again, which completes it: rs-assets forget {pipeline} FIELD=VALUE;"
            " or start over with --new-generation, which reads all records again",
            file=job / FILE,
        )
