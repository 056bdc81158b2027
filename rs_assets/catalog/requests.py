"""Requests between processes, to stop, change or resume a running pipeline: files in its folder.

A run that is stopped by a request ends normally: it drains and returns, while a signal would look like a failure.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson
import psutil

from rs_assets.common.files import write_atomically
from rs_assets.common.processes import lives, started_s, this_host

Request = Literal["stop", "resume", "change"]


def ask(folder: Path, request: Request, *, reason: str, run_id: str = "") -> str:
    """Write a request of the run `run_id`; returns its id."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    request_id = uuid.uuid4().hex[:12]
    content = {
        "id": request_id,
        "reason": reason,
        "at": datetime.now(UTC).isoformat(),
        "pid": os.getpid(),
        "host": this_host(),
        "process_started": started_s(psutil.Process()),
        "run": run_id,
    }
    write_atomically(_path(folder, request), orjson.dumps(content))
    return request_id


def asked(folder: Path, request: Request) -> dict[str, Any] | None:
    """The pending request, None without one; an unreadable file is a request without a reason.

    If the folder itself cannot be reached, there is no request: a stream would otherwise end normally and for good.
    """
    path = _path(folder, request)
    try:
        content = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        content = None
    except OSError:
        if not os.path.lexists(path):
            return None
        content = None
    return content if isinstance(content, dict) else {"id": "unknown", "reason": "unknown"}


def is_left(request: dict[str, Any]) -> bool:
    """Whether the process that made a request was on this machine and has ended."""
    try:
        return request["host"] == this_host() and not lives(request["pid"], request["process_started"])
    except KeyError:
        return False


def clear(folder: Path, request: Request) -> None:
    """Remove the request, if there is one."""
    _path(folder, request).unlink(missing_ok=True)


def _path(folder: Path, request: Request) -> Path:
    return folder / f"{request}.wanted"
