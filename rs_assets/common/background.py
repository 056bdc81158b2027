"""Background threads that survive errors, and the list of errors that they report."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import RsError

# Threads log here; a Dagster run shows it in its own log.
LOG = logging.getLogger("rs_assets")
# The first pause after a failure, unless `every` is longer; each further pause is twice as long.
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=1)
# How often a caller that waits for a thread checks whether it is alive, in seconds.
LOOK_S = 0.5
FILE = "troubles.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundFailure:
    """A background failure. `effect` says what is not done because of it; `times` counts failures in a row."""

    effect: str
    what: str
    remedy: str = ""
    times: int = 1
    since: datetime

    def __str__(self) -> str:
        often = f" ({self.times} times since {self.since:%Y-%m-%d %H:%M:%S} UTC)" if self.times > 1 else ""
        return f"{self.effect}: {self.what}{often}"


class BackgroundFailures:
    """The background failures and losses of one run. Thread-safe.

    With `folder` they are also written to a small file there for other processes; see `background_failures_in`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._open: dict[str, BackgroundFailure] = {}
        self._lost: dict[str, str] = {}

    def failed(self, effect: str, error: BaseException) -> None:
        """Record a failure; only the first in a row is logged."""
        what, remedy = _described(error)
        with self._guard:
            known = self._open.get(effect)
            made = BackgroundFailure(effect=effect, what=what, remedy=remedy, since=datetime.now(UTC))
            self._open[effect] = replace(made, times=known.times + 1, since=known.since) if known else made
            self._keep()
        if known is None or known.what != what:
            LOG.warning("%s: %s%s", effect, what, f"; remedy: {remedy}" if remedy else "")

    def succeeded(self, effect: str) -> None:
        """Record a success, which ends a failure."""
        with self._guard:
            known = self._open.pop(effect, None)
            if known is not None:
                self._keep()
        if known is not None:
            LOG.warning("%s: over; noted %d times since %s", effect, known.times, known.since.isoformat())

    def lost(self, subject: str, text: str) -> None:
        """Record a permanent loss; a later text on the same `subject` replaces the earlier one."""
        with self._guard:
            fresh = subject not in self._lost
            self._lost[subject] = text
            self._keep()
        if fresh:
            LOG.warning("%s", text)

    @contextmanager
    def guarding(self, effect: str) -> Iterator[None]:
        """Run a block whose failure must not stop the caller: it is recorded, and cleared by the next success."""
        try:
            yield
        except BaseException as error:
            if _ends_the_program(error):
                raise
            self.failed(effect, error)
        else:
            self.succeeded(effect)

    @property
    def open(self) -> tuple[BackgroundFailure, ...]:
        """The failures that are still open."""
        with self._guard:
            return tuple(self._open.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Open failures and losses as text for people."""
        with self._guard:
            return (*map(str, self._open.values()), *self._lost.values())

    def begin(self) -> None:
        """Remove what the previous run left in the file."""
        with self._guard:
            self._keep()

    def _keep(self) -> None:
        if self._folder is None:
            return
        path = self._folder / FILE
        content = [*map(str, self._open.values()), *self._lost.values()]
        try:
            if content:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
                data = orjson.dumps({"at": datetime.now(UTC).isoformat(), "warnings": content})
                write_atomically(path, data, durable=False)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # The same disk may be the cause; the run report and the log still have the failure.
            LOG.debug("the file of background failures cannot be written: %s", error)


def background_failures_in(folder: Path) -> tuple[str, ...]:
    """The warnings of the newest run of the job in `folder`, during the run and after it."""
    try:
        content: dict[str, Any] = orjson.loads((folder / FILE).read_bytes())
        return tuple(str(warning) for warning in content["warnings"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


class PeriodicTask:
    """Repeats some work on its own thread until it is stopped, whatever the work raises.

    After a failure the pauses grow, up to a minute or to `every`, whichever is longer. The failure stays in `failures`
    under `effect` until the work succeeds.
    """

    def __init__(
        self, work: Callable[[], object], *, name: str, every: timedelta, failures: BackgroundFailures, effect: str
    ) -> None:
        self._work = work
        self._every_s = every.total_seconds()
        self._failures = failures
        self._effect = effect
        self._in_a_row = 0
        self._end = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        """Start the thread; the work is first done after one pause."""
        self._thread.start()
        return self

    def stop(self, *, patience_s: float = math.inf) -> None:
        """Stop, and wait up to `patience_s` for work in progress; may be called twice, and by the work itself."""
        self._end.set()
        until = time.monotonic() + patience_s
        # Event.wait, not Thread.join: an interrupt inside `join` can leave the thread object broken.
        while self._thread.is_alive() and threading.current_thread() is not self._thread and time.monotonic() < until:
            self._ended.wait(LOOK_S)

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._end.is_set()

    def once(self) -> bool:
        """Do the work now, on the caller's thread; True if it succeeded."""
        before = self._in_a_row
        with self._failures.guarding(self._effect):
            self._in_a_row = before + 1
            self._work()
            self._in_a_row = 0
        return self._in_a_row == 0

    def _run(self) -> None:
        try:
            while not self._end.wait(self._pause_s()):
                self.once()
        finally:
            self._ended.set()

    def _pause_s(self) -> float:
        if not self._in_a_row:
            return self._every_s
        first = max(self._every_s, FIRST_PAUSE.total_seconds())
        longest = max(self._every_s, LONGEST_PAUSE.total_seconds())
        return float(min(first * 2 ** min(self._in_a_row - 1, 10), longest))


def _ends_the_program(error: BaseException) -> bool:
    """Whether it is an interrupt or an exit. A panic of delta-rs is an ordinary failure, but not an Exception."""
    return not isinstance(error, Exception) and type(error).__name__ != "PanicException"


def _described(error: BaseException) -> tuple[str, str]:
    """The text of an error, and its remedy if it has one."""
    if isinstance(error, RsError):
        cause = error.facts.get("cause")
        return (f"{error.what} ({cause})" if cause else error.what), error.remedy
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__, ""
