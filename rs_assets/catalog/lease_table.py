"""Storage of leases as a Delta table: one row a pipeline, and one small file a pipeline for its heartbeats.

A row changes only when a lease is taken or released, by a commit on top of the version that was read: on a disk and in
an object store, which both refuse the second writer of a version. A heartbeat overwrites its file, so a year of
heartbeats leaves one file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from rs_assets.common.folder import Folder, make_folder
from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import content_of, delta_table, replace_in
from rs_assets.connectors.delta.rows import rows_of
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


class LeaseChanged(Exception):
    """The lease of the pipeline may have changed since the table was read: nothing was written."""


class LeaseTable(Protocol):
    """The leases, as they were when this was opened or refreshed. Errors are those of `usable`."""

    def refresh(self) -> None:
        """Read again."""

    def rows(self) -> list[Row]:
        """The rows of all pipelines, with their newest heartbeats; CheckpointError if they cannot be read."""

    def write(self, row: Row, *, seen: Row | None) -> None:
        """Replace `seen`, None for no row yet, by `row`; LeaseChanged if another process may have changed it."""

    def beat(self, row: Row) -> None:
        """Store the heartbeat of a holder; it need not survive a power cut, as its process would not either."""

    def tidy(self) -> None:
        """Occasionally remove what was replaced long ago; never fails."""


class DeltaLeases:
    """The Delta table at `path`, created empty: concurrent writes of a first row could not be detected otherwise."""

    def __init__(self, path: Folder) -> None:
        self.path = path
        self._table = _opened(path)

    def refresh(self) -> None:
        """Read again."""
        self._table.update_incremental()

    def rows(self) -> list[Row]:
        """The rows of all pipelines, with their newest heartbeats; CheckpointError if they cannot be read."""
        try:
            with _no_panic():
                found: list[Row] = rows_of(self._table, str(self.path)).to_pylist()
        except (DeltaError, pa.ArrowException, OSError) as error:
            raise CheckpointError(
                "the leases in the catalog cannot be read",
                remedy="stop all pipelines of this home, move the folder away and start again: it is recreated",
                file=self._table.table_uri,
            ) from error
        return [row if row["released"] else {**row, **self._newest_beat(row)} for row in found]

    def write(self, row: Row, *, seen: Row | None) -> None:  # noqa: ARG002  it replaces what was read
        """Replace the row of a pipeline; LeaseChanged if another process has committed meanwhile."""
        rows = pa.Table.from_pylist([dict(row)], schema=SCHEMA)
        properties = CommitProperties(app_transactions=[Transaction(f"lease/{row['pipeline']}", row["token"])])
        where = f"pipeline = '{row['pipeline']}'"
        try:
            with _no_panic():
                write_deltalake(self._table, rows, mode="overwrite", predicate=where, commit_properties=properties)
        except CommitFailedError as error:
            raise LeaseChanged from error

    def beat(self, row: Row) -> None:
        """Overwrite the file of its heartbeats."""
        content = {**{name: row[name] for name in ("token", "run_id", "beat")}, "at": row["renewed_at"].isoformat()}
        replace_in(self.path, _beat_name(row), orjson.dumps(content), durable=False)

    def tidy(self) -> None:
        """Occasionally remove the files and the log of rows that were replaced long ago; never fails."""
        with suppress(DeltaError, OSError), _no_panic():
            self._table.update_incremental()
            if self._table.version() % TIDY_VERSIONS == 0:
                self._table.vacuum(TIDY_HOURS, dry_run=False, enforce_retention_duration=False)
                self._table.create_checkpoint()
                self._table.cleanup_metadata()

    def _newest_beat(self, row: Row) -> Row:
        """Number and time of the newest heartbeat of this holder; {} without one."""
        try:
            content = orjson.loads(content_of(self.path, _beat_name(row)))
            if (content["token"], content["run_id"]) != (row["token"], row["run_id"]):
                return {}
            at = datetime.fromisoformat(content["at"]).astimezone(UTC)
            return {"beat": int(content["beat"]), "renewed_at": at}
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return {}


def _beat_name(row: Row) -> str:
    return f"{BEATS}/{row['pipeline']}.json"


def check_writable(path: Folder) -> None:
    """OSError if the disk is full or read-only, which is clearer than the panic of Delta in that case."""
    if not isinstance(path, Path):
        return
    probe = path / BEATS / f".{uuid.uuid4().hex}.tmp"
    probe.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _opened(path: Folder) -> DeltaTable:
    with _no_panic():
        with suppress(TableNotFoundError):
            return delta_table(str(path))
        make_folder(path)
        # Another process may create it at this moment.
        with suppress(DeltaError):
            DeltaTable.create(
                str(path),
                SCHEMA,
                partition_by=["pipeline"],
                configuration={"delta.logRetentionDuration": "interval 1 hours"},
                storage_options=storage_options(str(path)),
            )
        return delta_table(str(path))


@contextmanager
def usable(path: object) -> Iterator[None]:
    """Convert errors of the disk, of the object store and of Delta to CheckpointError."""
    try:
        with _no_panic():
            yield
    except (DeltaError, LeaseChanged, OSError) as error:
        reason = getattr(error, "strerror", None) or str(_root(error)).partition("\n")[0][:200]
        raise CheckpointError(
            f"the lease cannot be taken, because the catalog cannot be written: {reason}",
            remedy="check that the disk has room and is not mounted read-only, and that this user may write there",
            file=path,
        ) from error


def _root(error: Exception) -> BaseException:
    """What is reported: not that the lease has changed, but the conflict that shows it."""
    return (error.__cause__ or error) if isinstance(error, LeaseChanged) else error


@contextmanager
def _no_panic() -> Iterator[None]:
    """Convert a panic of Delta's Rust code, which is not an Exception, to OSError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise OSError(f"Delta panicked: {error}") from error
