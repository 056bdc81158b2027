"""The right to run a pipeline: a lease with a fencing token, kept in a Delta table of the catalog or in a database.

A token is issued once, and tokens only grow. They are part of the transactions of the sinks, so the commits of a driver
that was paused while another one took over are refused, whatever it believes. Whether a holder is alive is decided by
its process (on this machine and in this container) or by its heartbeats, timed with our own monotonic clock: wall
clocks may jump, and those of two machines differ.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self, TypeAlias

import psutil
from deltalake.exceptions import DeltaError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.catalog.lease_table import SCHEMA, DeltaLeases, LeaseChanged, LeaseTable, Row, check_writable, usable
from rs_assets.common.background import BackgroundFailures
from rs_assets.common.folder import Folder
from rs_assets.common.home import Database
from rs_assets.common.interrupts import held_back
from rs_assets.common.processes import lives, started_s, this_host
from rs_assets.connectors.delta.log.store import is_table
from rs_assets.errors import CheckpointError, LeaseLostError, PipelineBusyError

# Long enough for a batch to outlast a slow disk, short enough that a dead machine is noticed soon.
DEFAULT_TTL = timedelta(seconds=30)
# Heartbeats per time to live: two may be lost.
BEATS = 3
NOT_RENEWED = "the lease is not renewed"
# How often a silent holder is checked, in seconds.
LOOK_S = 0.1
# Where leases are: the folder of a Delta table, or a database.
LeasePlace: TypeAlias = Folder | Database
# The leases that this process holds: others of this process that could not be released are known to be free.
_HELD: set[tuple[str, int, str]] = set()
# The newest heartbeat of each lease that this process has read: its number, when it was first read, and when the read
# began that found no newer one, both by our own clock: a pause of this process between two reads does not count.
_SEEN: dict[tuple[LeasePlace, str], tuple[tuple[object, ...], float, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """A pipeline's lease, as stored in the catalog. `beat` grows with every renewal of one token."""

    pipeline: str
    token: int
    beat: int
    released: bool
    host: str
    pid: int
    process_started: float
    run_id: str
    ttl_ms: int
    acquired_at: datetime
    renewed_at: datetime

    @property
    def age(self) -> timedelta:
        """How long ago the last heartbeat was, by this machine's wall clock."""
        return datetime.now(UTC) - self.renewed_at

    @property
    def here(self) -> bool:
        """Whether its process id is one of this machine, boot and container."""
        return self.host == this_host()

    @property
    def free(self) -> bool:
        """Whether the lease is certainly free: released, or held by a process of this machine that has ended."""
        return self.released or (self.here and (self._forgotten or not lives(self.pid, self.process_started)))

    @property
    def stale(self) -> bool:
        """Whether it looks abandoned by the wall clock; only watching it can prove that.

        A beat from far in the future means as little as an old one: one of the clocks was changed.
        """
        return not self.free and abs(self.age) > timedelta(milliseconds=self.ttl_ms)

    @property
    def lease_id(self) -> tuple[str, int, str]:
        """Identifies it among all leases of a home."""
        return self.pipeline, self.token, self.run_id

    @property
    def _forgotten(self) -> bool:
        """Whether this process took it and ended it, but could not record that."""
        return self.pid == os.getpid() and self.lease_id not in _HELD


class Lease:
    """A held lease; a context manager that renews it from a thread of its own and releases it at the end."""

    def __init__(
        self, path: LeasePlace, row: LeaseRow, *, taken_over: bool = False, before: LeaseRow | None = None
    ) -> None:
        self.path = path
        self.row = row
        # The previous lease, which shows how long its holder has lived.
        self.before = before
        # Whether the previous holder was only silent: it may wake, and must find its token outranked everywhere.
        self.taken_over = taken_over
        self._renewed = time.monotonic()
        self.failures = BackgroundFailures()
        self._lost: LeaseLostError | None = None
        self._guard = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rs-lease", daemon=True)

    @property
    def token(self) -> int:
        """The fencing token: greater than every earlier token of this pipeline."""
        return self.row.token

    @classmethod
    def acquire(
        cls,
        path: LeasePlace,
        *,
        pipeline: str,
        run_id: str,
        ttl: timedelta = DEFAULT_TTL,
        above: int = 0,
        within: ExitStack | None = None,
    ) -> Self:
        """Take the lease of `pipeline` in the table at `path`, with a token greater than `above`.

        PipelineBusyError names the holder if there is one. A holder without a sign of life is watched for up to its
        time to live before its lease is taken. CheckpointError if the table cannot be read or written. The end of
        `within` releases the lease, even if a signal interrupts this: it is on the stack before it is in the table.
        """
        mine, taken_over = _claim(pipeline, run_id, ttl), False
        while True:
            with usable(path):
                table = _writable(path)
                held = _rows(table, path).get(pipeline)
                if held is not None and not held.free:
                    taken_over |= _watch(path, held)
                row = replace(mine, token=max(held.token if held else 0, above) + 1)
                lease = cls(path, row, taken_over=taken_over, before=held)
                if within is not None:
                    within.push(lease)
                if _taken(path, row, table, seen=held):
                    return lease

    def __enter__(self) -> Self:
        """Begin to renew it."""
        with held_back():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it, unless another holder has it; a signal that asks to end waits for that."""
        with held_back():
            self._give_back()

    def _give_back(self) -> None:
        self._end.set()
        # The thread was not started if the lease was not taken.
        if self._thread.is_alive():
            self._thread.join()
        _HELD.discard(self.row.lease_id)
        with self._guard, suppress(DeltaError, LeaseChanged, OSError, CheckpointError):
            table = _open(self.path)
            if self._lost is None and self._is_current(table):
                released = replace(self.row, released=True, renewed_at=datetime.now(UTC))
                _write(self.path, released, table, seen=self.row)
                table.tidy()

    def check(self) -> None:
        """Return if this process still holds the lease; LeaseLostError otherwise. Called before each commit.

        After a pause longer than half the time to live the catalog is read, else the last heartbeat counts.
        """
        with self._guard:
            if self._lost is None and time.monotonic() - self._renewed > self._ttl_s / 2:
                self._renew()
            if self._lost is not None:
                raise self._lost

    def outrank(self, token: int) -> None:
        """Take a token above `token`, which a sink has stored for this pipeline; LeaseLostError if the lease is lost.

        For a home whose leases were lost: it would begin to count below the tokens of its own sinks.
        """
        with self._guard, usable(self.path):
            if token < self.token:
                return
            table, row = _open(self.path), replace(self.row, token=token + 1)
            if not (self._is_current(table) and _taken(self.path, row, table, seen=self.row)):
                raise _lost(self.row, read_lease(self.path, row.pipeline))
            _HELD.discard(self.row.lease_id)
            self.row = row

    @property
    def _ttl_s(self) -> float:
        return self.row.ttl_ms / 1000

    def _beat(self) -> None:
        while not self._end.wait(self._ttl_s / BEATS):
            # Any error: a thread that ends here would lose the lease silently.
            with self._guard, self.failures.guarding(NOT_RENEWED):
                if self._lost is None:
                    self._renew(told=True)

    def _renew(self, *, told: bool = False) -> None:
        """Write a heartbeat. An unreachable store is fatal only after the time to live.

        With `told` the error is also raised.
        """
        try:
            table = _open(self.path)
            if not self._is_current(table):
                self._lost = _lost(self.row, read_lease(self.path, self.row.pipeline))
                return
            row = replace(self.row, beat=self.row.beat + 1, renewed_at=datetime.now(UTC))
            table.beat(_plain(row))
            self.row, self._renewed = row, time.monotonic()
        except (DeltaError, LeaseChanged, OSError, CheckpointError) as error:
            if time.monotonic() - self._renewed > self._ttl_s:
                self._lost = LeaseLostError(
                    "the lease could not be renewed in time",
                    remedy="make the catalog writable, then start again",
                    pipeline=self.row.pipeline,
                    cause=str(error)[:200],
                )
            if told:
                raise

    def _is_current(self, table: LeaseTable) -> bool:
        current = _rows(table, self.path).get(self.row.pipeline)
        return current is not None and _same(current, self.row)


@contextmanager
def held_lease(path: LeasePlace, *, pipeline: str, run_id: str, ttl: timedelta = DEFAULT_TTL) -> Iterator[Lease]:
    """Hold the lease within the context, as `Lease.acquire` takes it, and renew it."""
    with ExitStack() as stack:
        yield Lease.acquire(path, pipeline=pipeline, run_id=run_id, ttl=ttl, within=stack).__enter__()


def read_lease(path: LeasePlace, pipeline: str) -> LeaseRow | None:
    """The lease of `pipeline` in the catalog, None if it never had one."""
    return read_leases(path).get(pipeline)


def refuse_held(path: LeasePlace, pipeline: str) -> None:
    """PipelineBusyError if another process holds the lease of `pipeline`, as `acquire` decides; nothing is taken."""
    held = read_lease(path, pipeline)
    if held is not None and not held.free:
        _watch(path, held)


def read_leases(path: LeasePlace) -> Mapping[str, LeaseRow]:
    """The leases of all pipelines, by name."""
    with usable(path):
        return _rows(_open(path), path) if isinstance(path, Database) or is_table(str(path)) else {}


def _claim(pipeline: str, run_id: str, ttl: timedelta) -> LeaseRow:
    now = datetime.now(UTC)
    return LeaseRow(
        pipeline=pipeline,
        token=0,
        beat=0,
        released=False,
        host=this_host(),
        pid=os.getpid(),
        process_started=started_s(psutil.Process()),
        run_id=run_id,
        ttl_ms=ttl // timedelta(milliseconds=1),
        acquired_at=now,
        renewed_at=now,
    )


def _watch(path: LeasePlace, held: LeaseRow) -> bool:
    """Wait until `held` is free, or has been silent for long enough: then True. PipelineBusyError if it is alive.

    A fresh beat alone is trusted only from a process of this machine: other clocks may be ahead of ours.
    """
    if held.here and not held.stale:
        raise _busy(held)
    pause, enough_s = threading.Event(), _enough_s(held)
    while _silent_s(path, held) < enough_s:
        pause.wait(LOOK_S)
        now = read_lease(path, held.pipeline)
        if now is None or (now.token == held.token and now.free):
            return False
        if (now.lease_id, now.beat) != (held.lease_id, held.beat):
            raise _busy(now)
    return True


def is_abandoned(path: LeasePlace, held: LeaseRow) -> bool:
    """Whether `held`, which was read from `path`, is free, or this process has seen that its holder is silent.

    A process that has seen it takes the lease at once. It has to read again and again until then.
    """
    return held.free or _silent_s(path, held) >= _enough_s(held)


def _enough_s(held: LeaseRow) -> float:
    """How many seconds of silence prove that the holder is gone.

    It beats every third of its time to live, so half of it is enough; all of it if the wall clocks agree that it was
    alive just now.
    """
    return held.ttl_ms / 1000 / (2 if held.stale else 1)


def _silent_s(path: LeasePlace, held: LeaseRow) -> float:
    """For how many seconds this process has read no newer heartbeat than that of `held`; 0 if it has."""
    mark, first, last = _SEEN.get((path, held.pipeline), ((), 0.0, 0.0))
    return last - first if mark == (held.lease_id, held.beat) else 0.0


def _open(path: LeasePlace) -> LeaseTable:
    """The leases at `path`, created if there are none."""
    if isinstance(path, Database):
        from rs_assets.catalog.lease_rows import DatabaseLeases

        return DatabaseLeases(path.url)
    return DeltaLeases(path)


def _writable(path: LeasePlace) -> LeaseTable:
    """The leases at `path`; OSError if they certainly cannot be written."""
    if not isinstance(path, Database):
        check_writable(path)
    return _open(path)


def _rows(table: LeaseTable, path: LeasePlace) -> Mapping[str, LeaseRow]:
    """The leases by pipeline, with their newest heartbeats."""
    began = time.monotonic()
    try:
        rows = [LeaseRow(**row) for row in table.rows()]
    except TypeError as error:
        raise CheckpointError("the leases in the catalog have unexpected columns", file=path) from error
    now = time.monotonic()
    for row in rows:
        mark, key = (row.lease_id, row.beat), (path, row.pipeline)
        known, first, _ = _SEEN.get(key, (mark, now, began))
        _SEEN[key] = (mark, first if known == mark else now, began)
    return {row.pipeline: row for row in rows}


def _taken(path: LeasePlace, row: LeaseRow, table: LeaseTable, *, seen: LeaseRow | None) -> bool:
    """Whether `row` is now in the table, as a lease of this process."""
    taken = False
    _HELD.add(row.lease_id)
    try:
        taken = _write(path, row, table, seen=seen)
    finally:
        if not taken:
            _HELD.discard(row.lease_id)
    table.tidy()
    return taken


@retry(
    retry=retry_if_exception_type(LeaseChanged),
    stop=stop_after_attempt(10),
    wait=wait_random_exponential(multiplier=0.01, max=0.5),
    reraise=True,
)
def _write(path: LeasePlace, row: LeaseRow, table: LeaseTable, *, seen: LeaseRow | None) -> bool:
    """Replace `seen` by `row`, in one transaction; False if `seen` is no longer the pipeline's lease."""
    try:
        table.write(_plain(row), seen=None if seen is None else _plain(seen))
    except LeaseChanged:
        table.refresh()
        current = _rows(table, path).get(row.pipeline)
        if not (current is None if seen is None else current is not None and _same(current, seen)):
            return False
        raise
    return True


def _same(current: LeaseRow, row: LeaseRow) -> bool:
    mine, theirs = ((r.token, r.host, r.pid, r.run_id, r.released) for r in (row, current))
    return mine == theirs


def _plain(row: LeaseRow) -> Row:
    return {name: getattr(row, name) for name in SCHEMA.names}


def _busy(held: LeaseRow) -> PipelineBusyError:
    return PipelineBusyError(
        f"another run of {held.pipeline} is going",
        remedy="wait for it, or stop it: Ctrl-C in its terminal, Terminate in Dagster",
        **_holder(held),
    )


def _lost(mine: LeaseRow, current: LeaseRow | None) -> LeaseLostError:
    if current is None:
        return LeaseLostError(
            f"the lease of {mine.pipeline} is gone from the catalog",
            remedy="start again: a new lease is made, with a token above those stored in the sinks",
            token=mine.token,
        )
    return LeaseLostError(
        f"another driver has taken over {mine.pipeline} while this one was silent",
        remedy="nothing to do: this run ends here, the other one goes on",
        token=mine.token,
        **_holder(current),
    )


def _holder(row: LeaseRow) -> Mapping[str, object]:
    """Host, process, run and age of the holder, for people."""
    return {
        "host": row.host.split("/")[0],
        "pid": row.pid,
        "run": row.run_id,
        "since": row.acquired_at.isoformat(timespec="seconds"),
        "last_heartbeat": f"{max(row.age, timedelta(0)).total_seconds():.0f} s ago",
    }
