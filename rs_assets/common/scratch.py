"""Folders for what is run and thrown away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new folder among the temporary ones, which is removed at the end.

    Spark looks after its state on threads of its own, which may write into it when the queries have ended: what comes
    while it is removed is removed in a second go, and may stay behind that.

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
