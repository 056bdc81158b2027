"""One at a time joins the files of a Delta table, or replaces all of its rows.

Of two compactions that join the same files, and of a compaction and rows that replace all others, delta-rs commits
both, wherever it reads the table before the other's commit: rows would be there twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from deltalake import CommitProperties, DeltaTable

from rs_assets.common.locks import locked, release
from rs_assets.common.storage import is_remote


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Wait for others in such a block of the table at `path`, and keep them out; they have to read it within theirs.

    The lock is that of the table's folder, which ends with the process at the latest. An object store, and some file
    systems, have none.
    """
    handle = None if is_remote(path) else _locked(path)
    try:
        yield
    finally:
        if handle is not None:
            release(handle)


@contextmanager
def joining(table: DeltaTable) -> Iterator[None]:
    """`alone` with the newest version of a table."""
    uri = table.table_uri
    with alone(uri if is_remote(uri) else unquote(urlsplit(uri).path)):
        table.update_incremental()
        yield


def only_next(properties: CommitProperties) -> CommitProperties:
    """Those of a commit that fails if there was any other since the table was read, also in an object store.

    A compaction by delta-rs does not heed that.
    """
    properties.max_commit_retries = 0
    return properties


def _locked(folder: str) -> int | None:
    try:
        return locked(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX)
    except OSError:
        # The table does not exist yet, or its file system has no locks.
        return None
