"""Fast appends to the log of a Delta table on a file system: the file of a log entry, and new entries after the last.

A commit by delta-rs, and each check for new entries, reads the log since its last checkpoint and lists the table's
files: with 40,000 files both together take 60 ms. An entry that only adds files to a known version needs neither.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.log.store import files_of
from rs_assets.errors import SinkError

# A table gets a checkpoint of its log every so many versions, unless its properties say otherwise.
INTERVAL, USUAL_INTERVAL = "delta.checkpointInterval", 100


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The file of a version's log entry; `inode` is None if there is none (any more)."""

    version: int
    inode: int | None = None
    written_ns: int = 0

    @property
    def there(self) -> bool:
        """Whether the file exists."""
        return self.inode is not None


def log_entry(path: str, version: int) -> LogEntry:
    """The log entry of a version, as it is stored now."""
    if is_remote(path):
        return _stored_entry(path, version)
    try:
        facts = _entry_path(path, version).stat()
    except OSError:
        return LogEntry(version)
    return LogEntry(version, facts.st_ino, facts.st_mtime_ns)


def checkpoint_due(table: DeltaTable, version: int) -> bool:
    """Whether the commit of `version` makes a checkpoint of the log, so that delta-rs must do it.

    The interval comes from the properties: `table` may be at any version that has the same ones.
    """
    every = table.metadata().configuration.get(INTERVAL, "")
    return (version + 1) % (int(every) if every.isdecimal() and int(every) else USUAL_INTERVAL) == 0


def put_entry(path: str, version: int, entry: bytes, *, beside: Path) -> bool:
    """Make `entry` the log entry of `version`, atomically.

    Returns False and changes nothing if the version has an entry, or if the file system has no hard links. `beside` is
    a folder of the same file system that no reader looks into.
    """
    made = beside / f"{version:020d}-{uuid.uuid4().hex[:8]}.json"
    try:
        made.write_bytes(entry)
        # Unlike a rename it never replaces an existing file.
        os.link(made, _entry_path(path, version))
    except OSError:
        return False
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)
    return True


def append_entry(actions: Sequence[AddAction], metadata: CommitProperties, partition_by: Sequence[str]) -> bytes:
    """The entry of a commit that adds files and removes none, as delta-rs writes it."""
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": orjson.dumps([*partition_by]).decode()},
        "engineInfo": "rs-assets",
        "isBlindAppend": True,
        **(metadata.custom_metadata or {}),
    }
    marks = [{"txn": {"appId": mark.app_id, "version": mark.version}} for mark in metadata.app_transactions or ()]
    return b"\n".join(map(orjson.dumps, ({"commitInfo": info}, *map(_added, actions), *marks)))


def _added(action: AddAction) -> Mapping[str, Any]:
    return {
        "add": {
            "path": action.path,
            "partitionValues": action.partition_values,
            "size": action.size,
            "modificationTime": action.modification_time,
            "dataChange": action.data_change,
            "stats": action.stats,
        }
    }


def _stored_entry(path: str, version: int) -> LogEntry:
    """The entry in an object store, where a file has no inode: its size takes the place of one."""
    try:
        facts = files_of(path).get_file_info(f"_delta_log/{version:020d}.json")
    except OSError as error:
        raise SinkError(
            f"the log of the table cannot be read: {str(error).strip().splitlines()[-1]}",
            remedy="check that the object store answers, and the access to it; then start again",
            table=path,
        ) from error
    return LogEntry(version, facts.size, facts.mtime_ns or 0) if facts.is_file else LogEntry(version)


def _entry_path(path: str, version: int) -> Path:
    return Path(path, "_delta_log", f"{version:020d}.json")
