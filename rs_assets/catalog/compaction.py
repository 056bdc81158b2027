"""Compaction of a Delta table: joins small files and removes files that no recent version references."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.files.staging import YOUNG, clear_folders, old_folders
from rs_assets.connectors.delta.joining import joining
from rs_assets.connectors.delta.log.causes import causes_of
from rs_assets.errors import SinkError

HOUR = timedelta(hours=1)


def compact_table(table: DeltaTable, *, retention: timedelta, target_bytes: int | None = None) -> dict[str, int]:
    """Join small files, write a checkpoint of the log, and remove files that no version younger than `retention` uses.

    Files are joined up to about `target_bytes`; None: the table's `delta.targetFileSize`, else 100 MB.

    Files that never became part of the table, and their empty folders, are removed at that age too, but not before one
    hour: a writer may be about to commit them. Readers of the table, including streams, are not affected: a compaction
    adds no rows. SinkError if a file cannot be written or removed, CommitFailedError if others always commit first.
    """
    try:
        return _compacted(table, retention, target_bytes)
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        raise SinkError(
            f"the files of a table cannot be joined: {causes_of(error)}",
            remedy="check the disk and the permissions of the table's folder, then compact again: no row has changed",
            table=table.table_uri,
        ) from error


def _compacted(table: DeltaTable, retention: timedelta, target_bytes: int | None) -> dict[str, int]:
    # Decoded: the URI of a table has %20 for a space. An object store has no folders, and nothing is staged there.
    root = None if is_remote(table.table_uri) else Path(unquote(urlsplit(table.table_uri).path))
    age = max(retention, YOUNG)
    done = _joined(table, target_bytes)
    old = old_folders(root, age=age) if root is not None else []
    removed = _vacuumed(table, retention, full=retention >= YOUNG)
    if retention < YOUNG:
        removed += _vacuumed(table, YOUNG, full=True)
    if root is not None:
        removed += clear_folders(root, old, age=age)
    table.create_checkpoint()
    table.cleanup_metadata()
    return {
        "files_added": int(done["numFilesAdded"]),
        "files_joined": int(done["numFilesRemoved"]),
        "files_removed": removed,
        "delta_version": table.version(),
    }


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.05, max=1.0),
    reraise=True,
)
def _joined(table: DeltaTable, target_bytes: int | None) -> dict[str, Any]:
    """Join the files; files of a concurrent commit are joined by the next attempt."""
    with joining(table):
        return table.optimize.compact(target_size=target_bytes)


def _vacuumed(table: DeltaTable, retention: timedelta, *, full: bool) -> int:
    hours = int(retention / HOUR)
    return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full))
