"""The desired state of a stream: running or stopped. One small file per pipeline.

Only the holder of the pipeline's lease writes it: a start requests that the stream runs on, a stop that it ends.
Processes that restart streams read it, since the way a run ended says little about what was requested.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically

FILE = "wish.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """The last request for a stream: `stopped`, or that the run `run_id` goes on. Times are seconds since the epoch.

    `since` is the start of that run. `at` is the time of the request, or, if another run has taken the lease since, how
    long the run lived. `id` differs for each request. `interval_s` is the least time between two batches of the run, 0
    if it is not known.

    >>> desired = DesiredState(run_id="a", since=1.0, at=1.0)
    >>> stopped = desired.stop(now=3.0)
    >>> stopped.stopped, stopped.since, stopped.at, stopped.id == desired.id
    (True, 1.0, 3.0, False)
    """

    run_id: str
    stopped: bool = False
    since: float
    at: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    interval_s: float = 0.0

    def stop(self, *, now: float) -> DesiredState:
        """The request that the same run ends."""
        return replace(self, stopped=True, at=now, id=uuid.uuid4().hex[:12])


def read_desired_state(folder: Path) -> DesiredState | None:
    """The last request for the stream with checkpoints in `folder`; None if there is none or it cannot be read."""
    try:
        content = orjson.loads((folder / FILE).read_bytes())
        # Requests of earlier releases have no interval.
        known = {"interval_s": 0.0, **content}
        return DesiredState(**{name: known[name] for name in DesiredState.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_desired_state(folder: Path, desired: DesiredState) -> None:
    """Store `desired` as the last request, durably; OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_atomically(folder / FILE, orjson.dumps(asdict(desired)))


def request_run(folder: Path, run_id: str, interval: timedelta = timedelta(0)) -> DesiredState:
    """Record the request that the run `run_id`, which begins now, goes on, with so much time between its batches."""
    now = time.time()
    desired = DesiredState(run_id=run_id, since=now, at=now, interval_s=interval.total_seconds())
    write_desired_state(folder, desired)
    return desired
