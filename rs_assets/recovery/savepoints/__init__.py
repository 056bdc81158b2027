"""Savepoints: copies of a job's checkpoints, taken while it runs, to be restored or forked into another job."""

from rs_assets.recovery.savepoints.copy import Progress, Subject, take
from rs_assets.recovery.savepoints.model import SavedFile, Savepoint
from rs_assets.recovery.savepoints.restore import fork, restore, verify
from rs_assets.recovery.savepoints.retention import Removed, collect_garbage, retention
from rs_assets.recovery.savepoints.shuffled import Link
from rs_assets.recovery.savepoints.store import SavepointStore

__all__ = [
    "Link",
    "Progress",
    "Removed",
    "SavedFile",
    "Savepoint",
    "SavepointStore",
    "Subject",
    "collect_garbage",
    "fork",
    "restore",
    "retention",
    "take",
    "verify",
]
