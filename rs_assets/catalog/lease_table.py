"""Storage of leases: a Delta table with one row per pipeline, and one small file per pipeline for its heartbeats.

A row changes only when a lease is taken or released, by a commit on top of the version that was read. A heartbeat
overwrites its file, so a year of heartbeats leaves one file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

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
# Delta treats folders with this prefix as hidden.
BEATS = "_beats"
# The table is tidied every so many versions; files that were replaced this many hours ago are removed then.
TIDY_VERSIONS, TIDY_HOURS = 20, 1

# More than a row and its log entry need.
PROBE_BYTES = 16 << 10

Row = Mapping[str, Any]


def open_leases(path: Path) -> DeltaTable:
    """The table, created empty if there is none: concurrent writes of a first row could not be detected otherwise."""
    with _no_panic():
        with suppress(TableNotFoundError):
            return DeltaTable(str(path))
        path.mkdir(parents=True, exist_ok=True, mode=0o750)
        # Another process may create it at this moment.
        with suppress(DeltaError):
            DeltaTable.create(
                str(path),
                SCHEMA,
                partition_by=["pipeline"],
                configuration={"delta.logRetentionDuration": "interval 1 hours"},
            )
        return DeltaTable(str(path))


def rows_of(table: DeltaTable) -> list[Row]:
    """The rows of all pipelines; CheckpointError if they cannot be read."""
    try:
        with _no_panic():
            rows: list[Row] = table.to_pyarrow_table().to_pylist()
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise CheckpointError(
            "the leases in the catalog cannot be read",
            remedy="stop all pipelines of this home, move the folder away and start again: it is recreated",
            file=table.table_uri,
        ) from error
    return rows


def write_row(table: DeltaTable, row: Row) -> None:
    """Replace the row of a pipeline by `row`; CommitFailedError if another process has changed it meanwhile."""
    rows = pa.Table.from_pylist([dict(row)], schema=SCHEMA)
    properties = CommitProperties(app_transactions=[Transaction(f"lease/{row['pipeline']}", row["token"])])
    with _no_panic():
        write_deltalake(
            table, rows, mode="overwrite", predicate=f"pipeline = '{row['pipeline']}'", commit_properties=properties
        )


def check_writable(path: Path) -> None:
    """OSError if the disk is full or read-only, which is clearer than the panic of Delta in that case."""
    probe = path / BEATS / f".{uuid.uuid4().hex}.tmp"
    probe.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def tidy(table: DeltaTable) -> None:
    """Occasionally remove the files and the log of rows that were replaced long ago; never fails."""
    with suppress(DeltaError, OSError), _no_panic():
        table.update_incremental()
        if table.version() % TIDY_VERSIONS == 0:
            table.vacuum(TIDY_HOURS, dry_run=False, enforce_retention_duration=False)
            table.create_checkpoint()
            table.cleanup_metadata()


def write_beat(path: Path, *, pipeline: str, token: int, run_id: str, beat: int, at: datetime) -> None:
    """Overwrite the heartbeat of a pipeline; it need not survive a power cut, as its process would not either."""
    file = _beat_file(path, pipeline)
    content = {"token": token, "run_id": run_id, "beat": beat, "at": at.isoformat()}
    write_atomically(file, orjson.dumps(content), durable=False)


def read_beat(path: Path, *, pipeline: str, token: int, run_id: str) -> tuple[int, datetime] | None:
    """Number and time of the newest heartbeat of this holder; None without one."""
    try:
        content = orjson.loads(_beat_file(path, pipeline).read_bytes())
        if (content["token"], content["run_id"]) != (token, run_id):
            return None
        return int(content["beat"]), datetime.fromisoformat(content["at"]).astimezone(UTC)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def _beat_file(path: Path, pipeline: str) -> Path:
    return path / BEATS / f"{pipeline}.json"


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Convert errors of the disk and of Delta to CheckpointError."""
    try:
        with _no_panic():
            yield
    except (DeltaError, CommitFailedError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0][:200]
        raise CheckpointError(
            f"the lease cannot be taken, because the catalog cannot be written: {reason}",
            remedy="check that the disk has room and is not mounted read-only, and that this user may write there",
            file=path,
        ) from error


@contextmanager
def _no_panic() -> Iterator[None]:
    """Convert a panic of Delta's Rust code, which is not an Exception, to OSError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise OSError(f"Delta panicked: {error}") from error
