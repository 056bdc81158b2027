"""Savepoints: a job's checkpoints copied while it runs, to be restored, or forked into another job."""

from resources.checkpoint.savepoints.copy import Progress, Subject, take
from resources.checkpoint.savepoints.model import SavedFile, Savepoint
from resources.checkpoint.savepoints.restore import fork, refuse_unfinished, restore, verify
from resources.checkpoint.savepoints.retention import Removed, collect_garbage, retention
from resources.checkpoint.savepoints.store import SavepointStore

__all__ = [
    "Progress",
    "Removed",
    "SavedFile",
    "Savepoint",
    "SavepointStore",
    "Subject",
    "collect_garbage",
    "fork",
    "refuse_unfinished",
    "restore",
    "retention",
    "take",
    "verify",
]
