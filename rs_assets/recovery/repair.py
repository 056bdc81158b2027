"""Lossless repairs of a checkpoint; each checks again that it applies before it changes a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError
from rs_assets.recovery.preflight.disk import leftovers
from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.finding import Expected
from rs_assets.recovery.preflight.mending import why_keep_commit, why_keep_plan

# Takes the checkpoint folder of a stopped query; returns what was done. CheckpointError if it does not apply.
Repair = Callable[[Path, Expected], str]


def drop_uncommitted(checkpoint: Path, expected: Expected) -> str:
    """Remove a damaged newest offsets file whose batch is not committed anywhere; the batch is planned again."""
    facts = Facts(checkpoint, expected)
    _refused("drop_uncommitted", why_keep_plan(facts), checkpoint)
    _remove(checkpoint / "offsets" / str(facts.last_plan))
    return f"removed offsets/{facts.last_plan}: the batch is planned again"


def drop_commit(checkpoint: Path, expected: Expected) -> str:
    """Remove a damaged newest commits file; its batch runs again, and sinks that have it skip it.

    A later plan that no sink has begun is removed too, and first: a crash in between leaves a state that can be
    repaired.
    """
    facts = Facts(checkpoint, expected)
    _refused("drop_commit", why_keep_commit(facts), checkpoint)
    batch, behind = facts.last_commit, facts.last_plan > facts.last_commit
    if behind:
        _remove(checkpoint / "offsets" / str(facts.last_plan))
    _remove(checkpoint / "commits" / str(batch))
    also = f" and offsets/{facts.last_plan}, which no sink had begun" if behind else ""
    return f"removed commits/{batch}{also}: batch {batch} runs again, sinks that have it skip it"


def write_metadata(checkpoint: Path, expected: Expected) -> str:
    """Write the query's recorded id into a metadata file that is missing or damaged."""
    found, query_id = Facts(checkpoint, expected).metadata, expected.query_id
    reason = None
    if query_id is None:
        reason = "no id was recorded"
    elif found is not None and not found.spoilt:
        reason = "the metadata file can be read" if found.content else found.problem
    _refused("write_metadata", reason, checkpoint)
    with _disk(checkpoint):
        checkpoint.mkdir(parents=True, exist_ok=True, mode=0o750)
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)
        write_atomically(checkpoint / "metadata", orjson.dumps({"id": query_id}))
    return f"wrote the id {query_id} into metadata"


def clean_temporaries(checkpoint: Path, expected: Expected) -> str:
    """Remove temporary files of killed runs."""
    found = leftovers(checkpoint)
    _refused("clean_temporaries", None if found else f"the query {expected.query} has none", checkpoint)
    with _disk(checkpoint):
        for file in found:
            file.unlink(missing_ok=True)
    return f"removed {count_of(len(found), 'temporary file')}"


def _refused(repair: str, reason: str | None, checkpoint: Path) -> None:
    if reason is not None:
        raise CheckpointError(
            f"the repair {repair} does not apply: {reason}",
            remedy="restore the checkpoint from a copy, or start over with --new-generation",
            file=checkpoint,
        )


def _remove(file: Path) -> None:
    # The checksum first: Spark does not need one, but a checksum of a removed file would not match a new file.
    with _disk(file):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.unlink(missing_ok=True)


@contextmanager
def _disk(file: Path) -> Iterator[None]:
    """Convert OSError in the block to CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint cannot be written to: {error.strerror}",
            remedy="check the disk and the permissions",
            file=file,
        ) from error


REPAIRS: Mapping[str, Repair] = MappingProxyType(
    {
        "drop_uncommitted": drop_uncommitted,
        "drop_commit": drop_commit,
        "write_metadata": write_metadata,
        "clean_temporaries": clean_temporaries,
    }
)
