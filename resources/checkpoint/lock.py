"""One run of a job at a time on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
from filelock import FileLock, Timeout

from resources.errors import PipelineBusyError


@contextmanager
def run_lock(folder: Path, *, pipeline: str, run: str) -> Iterator[None]:
    """Hold the job in `folder` while the block runs; PipelineBusyError names who holds it otherwise.

    The operating system frees the lock when the process ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    lock = FileLock(folder / "run.lock")
    holder = folder / "run.holder.json"
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise _busy(pipeline, holder) from error
    try:
        holder.write_bytes(
            orjson.dumps(
                {"host": socket.gethostname(), "pid": os.getpid(), "run": run, "since": datetime.now(UTC).isoformat()}
            )
        )
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _busy(pipeline: str, holder: Path) -> PipelineBusyError:
    try:
        facts = orjson.loads(holder.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        facts = {}
    return PipelineBusyError(
        f"another run of {pipeline} is going",
        remedy="wait for it, or stop it (in the Dagster UI: Terminate)",
        **{key: facts.get(key) for key in ("host", "pid", "run", "since")},
    )
