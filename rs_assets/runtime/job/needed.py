"""What a source must be able to give again: the offsets to which batches and savepoints can go back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.scratch import scratch_folder
from rs_assets.recovery.savepoints import Savepoint, SavepointStore


def needed_offsets(store: SavepointStore, namespace: str, job: str, logs: Sequence[SourceLog]) -> Sequence[str | None]:
    """The offsets of a source in the oldest batches and in all savepoints; None where it was read from the beginning.

    `logs` are those of the queries that read it. CheckpointError for a savepoint that is damaged.
    """
    oldest = [_oldest(log) for log in logs]
    saved = [offset for each in store.savepoints(namespace, job) for log in logs for offset in _saved(store, each, log)]
    return [*oldest, *saved]


def _oldest(log: SourceLog) -> str | None:
    planned = log.log.planned_batches()
    return log.offset(planned[0]) if planned else None


def _saved(store: SavepointStore, savepoint: Savepoint, log: SourceLog) -> Iterator[str | None]:
    query = log.log.stored_name
    batch = savepoint.batches.get(query, -1)
    place = f"/{query}/checkpoint/offsets/{batch}"
    file = next((file for file in savepoint.files if file.path.endswith(place)), None)
    if file is None:
        yield None
        return
    with scratch_folder("rs-needed-") as scratch:
        copy = Path(scratch) / "offsets" / str(batch)
        copy.parent.mkdir()
        copy.write_bytes(b"".join(store.read(file.sha256, file.size_bytes)))
        yield SourceLog(CheckpointLog(Path(scratch), log.log.aliases), log.source).offset(batch)
