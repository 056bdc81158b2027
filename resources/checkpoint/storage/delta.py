"""The storage `delta`: a Delta table of the catalog that keeps every row, for anyone to query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from resources.checkpoint.storage.base import CheckpointRow, CheckpointStorage, Identity, row_of
from resources.errors import CheckpointError

VERSIONED = {"rs.schema_version": "1"}
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("namespace", pa.string()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("name", pa.string()),
        ("pipeline", pa.string()),
        ("queue", pa.string()),
        ("offset", pa.string()),
        ("query", pa.string()),
        ("generation", pa.int64()),
        ("batch_id", pa.int64()),
        ("run_id", pa.string()),
        ("watermark", pa.timestamp("us", tz="UTC")),
        ("at", pa.timestamp("us", tz="UTC")),
        ("reconciled", pa.bool_()),
    ]
)
IDENTITY = ["key", "query", "generation", "batch_id"]


class DeltaStorage(CheckpointStorage):
    """Appends to the Delta table at `path`; one pipeline writes the rows of a source at a time, as the lease has it.

    Each commit remembers, for each source and generation, its last batch as an application transaction. Only rows
    that are not behind it are looked up before they are written: a running pipeline never reads the table.
    """

    name = "delta"

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock=clock)
        self.path = path
        self._table: DeltaTable | None = None

    def __repr__(self) -> str:
        return f"DeltaStorage({str(self.path)!r})"

    def _write(self, rows: Sequence[CheckpointRow]) -> None:
        with _errors(self.path, "written"):
            self._append(rows)

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def _append(self, rows: Sequence[CheckpointRow]) -> None:
        table = self._open(create=True)
        last = {app: _last_batch(table, app) for app in map(_writer, rows)}
        repeated = [row for row in rows if row.batch_id <= last[_writer(row)]]
        there = _stored(table, repeated)
        new = [row for row in rows if row.identity not in there]
        if not new:
            return
        for row in new:
            last[_writer(row)] = max(last[_writer(row)], row.batch_id)
        properties = CommitProperties(
            custom_metadata=VERSIONED,
            app_transactions=[Transaction(app, batch) for app, batch in last.items()],
        )
        plain = pa.Table.from_pylist([_plain(row) for row in new], schema=SCHEMA)
        write_deltalake(table, plain, mode="append", commit_properties=properties)

    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        with _errors(self.path, "read"):
            try:
                table = self._open(create=False)
            except TableNotFoundError:
                return ()
            only = None if key is None else pc.field("key") == key
            rows = table.to_pyarrow_dataset().to_table(columns=SCHEMA.names, filter=only).to_pylist()
        return [row_of(row, key=row.pop("key")) for row in rows]

    def _open(self, *, create: bool) -> DeltaTable:
        """The table as it is now. It is made empty first: two first rows could not be written in competition."""
        if self._table is not None and self.path.exists():
            self._table.update_incremental()
            return self._table
        if create and not DeltaTable.is_deltatable(str(self.path)):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o750)
            # Somebody else may be making it at this moment.
            with suppress(DeltaError):
                DeltaTable.create(str(self.path), SCHEMA, commit_properties=CommitProperties(custom_metadata=VERSIONED))
        self._table = DeltaTable(str(self.path))
        return self._table

    def _close(self) -> None:
        self._table = None


def _writer(row: CheckpointRow) -> str:
    """The application transaction that holds the last stored batch of the row's source."""
    return f"checkpoints/{row.source_key}/{row.generation}"


def _last_batch(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version


def _stored(table: DeltaTable, rows: Sequence[CheckpointRow]) -> set[Identity]:
    """The identities among those of `rows` that are in the table."""
    if not rows:
        return set()
    keys = pc.field("key").isin(list({row.key for row in rows}))
    batches = pc.field("batch_id").isin(list({row.batch_id for row in rows}))
    found = table.to_pyarrow_dataset().to_table(columns=IDENTITY, filter=keys & batches).to_pylist()
    return {(each["key"], each["query"], each["generation"], each["batch_id"]) for each in found}


def _plain(row: CheckpointRow) -> Mapping[str, Any]:
    return {"key": row.key, **asdict(row)}


@contextmanager
def _errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError, OverflowError) as error:
        raise CheckpointError(
            f"the checkpoints cannot be {what}",
            remedy="see that the catalog is whole and can be written; the engine's own checkpoint is not affected",
            table=path,
            cause=str(error)[:200],
        ) from error
