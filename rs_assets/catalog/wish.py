"""What is wished of a stream: that it runs on, or that it is stopped. One small file a pipeline.

Only the process that holds the pipeline's lease writes it: a start that it runs on, a stop that it ends. Whoever starts
streams again reads it, for how a run has ended says little of what was wished.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically

FILE = "wish.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The last word on a stream: `stopped`, or that the run `run_id` goes on. Times are seconds since the epoch.

    `since` is when that run began. `at` is when the word was said, or how long the run lived if another one has taken
    the lease since. `id` is another one with each word.

    >>> wish = Wish(run_id="a", since=1.0, at=1.0)
    >>> stopped = wish.stop(now=3.0)
    >>> stopped.stopped, stopped.since, stopped.at, stopped.id == wish.id
    (True, 1.0, 3.0, False)
    """

    run_id: str
    stopped: bool = False
    since: float
    at: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def stop(self, *, now: float) -> Wish:
        """The word that the same run is to end."""
        return replace(self, stopped=True, at=now, id=uuid.uuid4().hex[:12])


def read_wish(folder: Path) -> Wish | None:
    """The last word on the stream whose checkpoints are in `folder`; None without one, or where it cannot be read."""
    try:
        content = orjson.loads((folder / FILE).read_bytes())
        return Wish(**{name: content[name] for name in Wish.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_wish(folder: Path, wish: Wish) -> None:
    """Make `wish` the last word, durably; OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_atomically(folder / FILE, orjson.dumps(asdict(wish)))


def wished_on(folder: Path, run_id: str) -> Wish:
    """Write down that the run `run_id`, which begins now, is to go on."""
    now = time.time()
    wish = Wish(run_id=run_id, since=now, at=now)
    write_wish(folder, wish)
    return wish
