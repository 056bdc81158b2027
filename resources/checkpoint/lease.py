"""Who may run a pipeline: a lease with a fencing token, kept in a Delta table of the catalog.

A token is given out once and only grows. It travels into the transactions of the sinks, so a driver that was paused
while another one took over finds its commits refused, whatever it believes. Whether a holder is still there is judged
by its process (on this machine) or by its heartbeats, timed with our own monotonic clock: a wall clock may jump.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from resources.errors import CheckpointError, LeaseLostError, PipelineBusyError

# Long enough for a batch to outlast a slow disk, short enough that a dead machine is noticed soon.
DEFAULT_TTL = timedelta(seconds=30)
# Heartbeats in one time to live: two may be lost.
BEATS = 3
# How often a silent holder is looked at, in seconds.
LOOK_S = 0.1
# The clocks of a boot and of a process are rounded to a second each.
SAME_START_S = 2.0
# Linux names each boot; elsewhere the machine's name has to do.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

SCHEMA = pa.schema(
    [
        ("pipeline", pa.string()),
        ("token", pa.int64()),
        ("beat", pa.int64()),
        ("released", pa.bool_()),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("process_started", pa.float64()),
        ("run_id", pa.string()),
        ("ttl_ms", pa.int64()),
        ("acquired_at", pa.timestamp("us", tz="UTC")),
        ("renewed_at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """The state of a pipeline's lease, as the catalog has it. `beat` grows with every renewal of one token."""

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
    def free(self) -> bool:
        """Whether nobody holds it for certain: it was given back, or its process on this machine has ended."""
        return self.released or (self.host == this_host() and not _runs(self))

    @property
    def stale(self) -> bool:
        """Whether it looks abandoned by the wall clock; only watching it tells."""
        return not self.free and self.age > timedelta(milliseconds=self.ttl_ms)


class Lease:
    """A held lease; a context manager that renews it from a thread of its own and gives it back at the end."""

    def __init__(self, path: Path, row: LeaseRow) -> None:
        self.path = path
        self.row = row
        self._renewed = time.monotonic()
        self._lost: LeaseLostError | None = None
        self._guard = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rs-lease", daemon=True)

    @property
    def token(self) -> int:
        """The fencing token: greater than every token given out before for this pipeline."""
        return self.row.token

    @classmethod
    def acquire(cls, path: Path, *, pipeline: str, run_id: str, ttl: timedelta = DEFAULT_TTL) -> Self:
        """Take the lease of `pipeline` in the Delta table at `path`.

        PipelineBusyError names the holder if there is one. A holder that shows no sign of life is watched for up to
        its time to live before its lease is taken.
        """
        mine = _claim(pipeline, run_id, ttl)
        while True:
            table = _open(path)
            held = _rows(table).get(pipeline)
            if held is not None and not held.free:
                _watch(path, held)
            row = replace(mine, token=held.token + 1 if held else 1)
            if _write(path, row, table):
                return cls(path, row)

    def __enter__(self) -> Self:
        """Begin to renew it."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back, unless somebody else has it by now."""
        self._end.set()
        self._thread.join()
        with self._guard, suppress(DeltaError, OSError):
            table = _open(self.path)
            if self._lost is None and _is_current(table, self.row):
                _write(self.path, replace(self.row, released=True, renewed_at=datetime.now(UTC)), table)

    def check(self) -> None:
        """Return if this process still holds the lease; LeaseLostError otherwise. Called before each commit.

        After a pause that was longer than half the time to live the catalog is asked, else the last heartbeat counts.
        """
        with self._guard:
            if self._lost is None and time.monotonic() - self._renewed > self._ttl_s / 2:
                self._renew()
            if self._lost is not None:
                raise self._lost

    @property
    def _ttl_s(self) -> float:
        return self.row.ttl_ms / 1000

    def _beat(self) -> None:
        while not self._end.wait(self._ttl_s / BEATS):
            with self._guard:
                if self._lost is None:
                    self._renew()

    def _renew(self) -> None:
        """Write a heartbeat. A store that cannot be reached is fatal only when the time to live is over."""
        try:
            # One snapshot for both: a token that comes between the two makes the write fail.
            table = _open(self.path)
            row = replace(self.row, beat=self.row.beat + 1, renewed_at=datetime.now(UTC))
            if _is_current(table, row) and _write(self.path, row, table):
                self.row, self._renewed = row, time.monotonic()
            else:
                self._lost = _lost(row, read_lease(self.path, row.pipeline))
        except (DeltaError, OSError) as error:
            if time.monotonic() - self._renewed > self._ttl_s:
                self._lost = LeaseLostError(
                    "the lease could not be renewed in time",
                    remedy="see that the catalog can be written, then start again",
                    pipeline=self.row.pipeline,
                    cause=str(error)[:200],
                )


def read_lease(path: Path, pipeline: str) -> LeaseRow | None:
    """The lease of `pipeline` as the catalog has it, None if it never had one."""
    return read_leases(path).get(pipeline)


def read_leases(path: Path) -> Mapping[str, LeaseRow]:
    """The leases of all pipelines, by name."""
    return _rows(_open(path)) if DeltaTable.is_deltatable(str(path)) else {}


def this_host() -> str:
    """This machine since it was booted: another boot is another holder, for its processes are gone."""
    boot = BOOT_ID.read_text().strip()[:8] if BOOT_ID.exists() else ""
    return f"{socket.gethostname()}/{boot}"


def _claim(pipeline: str, run_id: str, ttl: timedelta) -> LeaseRow:
    now = datetime.now(UTC)
    return LeaseRow(
        pipeline=pipeline,
        token=0,
        beat=0,
        released=False,
        host=this_host(),
        pid=os.getpid(),
        process_started=_started(psutil.Process()),
        run_id=run_id,
        ttl_ms=ttl // timedelta(milliseconds=1),
        acquired_at=now,
        renewed_at=now,
    )


def _runs(row: LeaseRow) -> bool:
    """Whether the process that took the lease lives; a process id that was given away again does not count."""
    try:
        process = psutil.Process(row.pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(_started(process) - row.process_started) < SAME_START_S
    except psutil.NoSuchProcess:
        return False


def _started(process: psutil.Process) -> float:
    """When it began, in seconds since the boot: a wall clock that is set moves neither."""
    return float(process.create_time() - psutil.boot_time())


def _watch(path: Path, held: LeaseRow) -> None:
    """Return when `held` is free or has shown no heartbeat for long enough; PipelineBusyError if it lives."""
    if not held.stale:
        raise _busy(held)
    pause = threading.Event()
    # A living holder beats every third of its time to live: half of it tells.
    deadline = time.monotonic() + held.ttl_ms / 1000 / 2
    while time.monotonic() < deadline:
        pause.wait(LOOK_S)
        now = read_lease(path, held.pipeline)
        if now is None or (now.token == held.token and now.free):
            return
        if (now.token, now.beat) != (held.token, held.beat):
            raise _busy(now)


def _open(path: Path) -> DeltaTable:
    """The table, made empty if there is none: a first row could not be written in competition otherwise."""
    with suppress(TableNotFoundError):
        return DeltaTable(str(path))
    path.mkdir(parents=True, exist_ok=True, mode=0o750)
    # Somebody else may be making it at this moment.
    with suppress(DeltaError):
        DeltaTable.create(
            str(path),
            SCHEMA,
            partition_by=["pipeline"],
            configuration={"delta.logRetentionDuration": "interval 1 days"},
        )
    return DeltaTable(str(path))


def _rows(table: DeltaTable) -> Mapping[str, LeaseRow]:
    try:
        return {row["pipeline"]: LeaseRow(**row) for row in table.to_pyarrow_table().to_pylist()}
    except (DeltaError, pa.ArrowException, TypeError) as error:
        raise CheckpointError("the leases in the catalog cannot be read", file=table.table_uri) from error


def _is_current(table: DeltaTable, row: LeaseRow) -> bool:
    current = _rows(table).get(row.pipeline)
    return current is not None and current.token == row.token


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(10),
    wait=wait_random_exponential(multiplier=0.01, max=0.5),
    reraise=True,
)
def _write(path: Path, row: LeaseRow, table: DeltaTable) -> bool:
    """Put `row` in the place of the pipeline's row, in one transaction; False if another token came between."""
    rows = pa.Table.from_pylist([_plain(row)], schema=SCHEMA)
    properties = CommitProperties(app_transactions=[Transaction(f"lease/{row.pipeline}", row.token)])
    try:
        write_deltalake(
            table, rows, mode="overwrite", predicate=f"pipeline = '{row.pipeline}'", commit_properties=properties
        )
    except CommitFailedError:
        table.update_incremental()
        current = read_lease(path, row.pipeline)
        if current is not None and current.token >= row.token and not _same(current, row):
            return False
        raise
    return True


def _same(current: LeaseRow, row: LeaseRow) -> bool:
    mine, theirs = ((r.token, r.host, r.pid, r.run_id) for r in (row, current))
    return mine == theirs


def _plain(row: LeaseRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SCHEMA.names}


def _busy(held: LeaseRow) -> PipelineBusyError:
    return PipelineBusyError(
        f"another run of {held.pipeline} is going",
        remedy="wait for it, or stop it (in the Dagster UI: Terminate)",
        **_holder(held),
    )


def _lost(mine: LeaseRow, current: LeaseRow | None) -> LeaseLostError:
    return LeaseLostError(
        f"another driver has taken over {mine.pipeline} while this one was silent",
        remedy="nothing to do: this run ends here, the other one goes on",
        token=mine.token,
        **(_holder(current) if current else {}),
    )


def _holder(row: LeaseRow) -> Mapping[str, object]:
    """Host, process, run and age, for people."""
    return {
        "host": row.host.split("/")[0],
        "pid": row.pid,
        "run": row.run_id,
        "since": row.acquired_at.isoformat(timespec="seconds"),
        "last_heartbeat": f"{max(row.age, timedelta(0)).total_seconds():.0f} s ago",
    }
