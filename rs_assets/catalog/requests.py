"""Requests between processes, to stop, change, resume or rescale a running pipeline: files in its folder.

A run that is stopped by a request ends normally: it drains and returns, while a signal would look like a failure.

A request to rescale is answered. The driver takes it by a rename, so that it is carried out once, and it can be
withdrawn until then. A later request replaces one that is not taken.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import orjson
import psutil

from rs_assets.common.files import write_atomically
from rs_assets.common.processes import has_ended, started_s, this_host

Request = Literal["stop", "resume", "change", "rescale"]
# How many answers are kept: each is read within a second by the process that asked.
KEPT = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """What has become of a request: `gone` if it was withdrawn, replaced by a later one, or removed by a start."""

    state: Literal["pending", "taken", "answered", "gone"]
    answer: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def ask(folder: Path, request: Request, *, reason: str, run_id: str = "", **details: object) -> str:
    """Write a request of the run `run_id` with these `details`; returns its id."""
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
        **details,
    }
    write_atomically(_path(folder, request), orjson.dumps(content))
    return request_id


def asked(folder: Path, request: Request) -> dict[str, Any] | None:
    """The pending request, None without one; an unreadable file is a request without a reason.

    If the folder itself cannot be reached, there is no request: a stream would otherwise end normally and for good.
    """
    return _content(_path(folder, request))


def _content(path: Path) -> dict[str, Any] | None:
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
        return has_ended(request["host"], request["pid"], request["process_started"])
    except KeyError:
        return False


def clear(folder: Path, request: Request) -> None:
    """Remove the request, if there is one, also if it was taken."""
    for path in (_path(folder, request), _taken(folder, request)):
        path.unlink(missing_ok=True)


def withdraw(folder: Path, request: Request, request_id: str) -> None:
    """Remove the request with this id if it is pending."""
    pending = asked(folder, request)
    if pending is not None and pending.get("id") == request_id:
        _path(folder, request).unlink(missing_ok=True)


def take(folder: Path, request: Request) -> dict[str, Any] | None:
    """Take the pending request, None without one; from now on it is not withdrawn or replaced.

    Only the holder of the pipeline's lease takes requests, and it calls `answer` for each.
    """
    taken = _taken(folder, request)
    try:
        _path(folder, request).replace(taken)
    except FileNotFoundError:
        return None
    return _content(taken)


def answer(folder: Path, request: Request, request_id: str, content: Mapping[str, object]) -> None:
    """Write the answer to a request that was taken."""
    answers = [*_answers(folder, request), {**content, "id": request_id}]
    write_atomically(_answered(folder, request), orjson.dumps(answers[-KEPT:]))
    _taken(folder, request).unlink(missing_ok=True)


def progress(folder: Path, request: Request, request_id: str) -> Progress:
    """What has become of the request with this id."""
    # In the order in which a request goes through them, so that it is seen in one of them.
    pending, taken = asked(folder, request), _content(_taken(folder, request))
    found = next((each for each in _answers(folder, request) if each.get("id") == request_id), None)
    if found is not None:
        return Progress("answered", found)
    if taken is not None and taken.get("id") == request_id:
        return Progress("taken")
    return Progress("pending" if pending is not None and pending.get("id") == request_id else "gone")


def _answers(folder: Path, request: Request) -> list[dict[str, Any]]:
    """The newest answers; those that cannot be read are none."""
    try:
        content = orjson.loads(_answered(folder, request).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return []
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _path(folder: Path, request: Request) -> Path:
    return folder / f"{request}.wanted"


def _taken(folder: Path, request: Request) -> Path:
    return folder / f"{request}.taken"


def _answered(folder: Path, request: Request) -> Path:
    return folder / f"{request}.answers"
