"""Temporary folders."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new temporary folder that is removed at the end.

    Spark maintains state on its own threads, which may still write after the queries have ended. A second removal
    deletes files that appear during the first; files that appear even later may remain.

    >>> with scratch_folder("example-") as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        try:
            yield Path(name)
        finally:
            shutil.rmtree(name, ignore_errors=True)
