"""The storage `delta`: a Delta table of the catalog that anyone can query."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.catalog.layout import (
    CONFIGURATION,
    DAY,
    FOR_GOOD,
    DataFile,
    Place,
    cutoff,
    data_files,
    day_of,
    join_files,
    newest_of_each,
    newest_rows,
    partitioned,
    rows_of_batches,
)
from rs_assets.catalog.offsets.base import CheckpointRow, CheckpointStorage, Identity, row_of
from rs_assets.catalog.offsets.merge import QUEUE
from rs_assets.common.folder import Folder, make_folder
from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import delta_table, is_table
from rs_assets.connectors.delta.rows import rows_of
from rs_assets.errors import CheckpointError

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
# The partition of a source in a query: a key may be longer than a folder name, and contain anything.
PART = "part"
STORED = pa.schema([*SCHEMA, (PART, pa.string()), (DAY, pa.date32())])
IDENTITY = ["key", "query", "generation", "batch_id"]
# Sources with more files than this are compacted at the end of a run.
CROWD = 300


class DeltaStorage(CheckpointStorage):
    """Appends to the Delta table at `path`; the lease lets one pipeline at a time write the rows of a source.

    Each commit stores, for each source and generation, its last batch as an application transaction. Only rows up to
    that batch are looked up before they are written: a running pipeline never reads the table.
    """

    name = "delta"

    def __init__(self, path: Folder) -> None:
        super().__init__()
        self.path = path
        self._table: DeltaTable | None = None

    def __repr__(self) -> str:
        return f"DeltaStorage({str(self.path)!r})"

    def newest(self, source_key: str, *, batches: int = 1, before: Place | None = None) -> tuple[CheckpointRow, ...]:
        """See the base class; opens the newest files only."""
        with self._guard:
            return self._found(
                source_key, partial(newest_rows, only=_of_source(source_key), batches=batches, before=before)
            )

    def of_batches(self, source_key: str, batches: range) -> tuple[CheckpointRow, ...]:
        """See the base class; opens only files with such batches."""
        with self._guard:
            return self._found(source_key, partial(rows_of_batches, only=_of_source(source_key), batches=batches))

    def tidy(self, source_keys: Collection[str] | None, *, keep: timedelta, now: datetime | None = None) -> None:
        """See the base class. Tables without partitions are left unchanged."""
        with self._guard, _errors(self.path, "tidied"), suppress(TableNotFoundError):
            table = self._open(create=False)
            if partitioned(table):
                there = set(pa.table(table.get_add_actions(flatten=True))[f"partition.{PART}"].to_pylist())
                for part in sorted(there if source_keys is None else there & set(map(part_of, source_keys))):
                    _let_go(table, part, cutoff(keep, now))
                    join_files(table, {PART: part})

    def crowded(self, source_keys: Collection[str]) -> bool:
        """See the base class."""
        with self._guard, _errors(self.path, "read"), suppress(TableNotFoundError):
            table = self._open(create=False)
            return any(len(data_files(table, {PART: part_of(key)})) > CROWD for key in source_keys)
        return False

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
        there = _stored(table, str(self.path), repeated)
        new = [row for row in rows if row.identity not in there]
        if not new:
            return
        for row in new:
            last[_writer(row)] = max(last[_writer(row)], row.batch_id)
        properties = CommitProperties(
            custom_metadata=VERSIONED,
            app_transactions=[Transaction(app, batch) for app, batch in last.items()],
        )
        plain = pa.Table.from_pylist([_plain(row) for row in new], schema=STORED if partitioned(table) else SCHEMA)
        write_deltalake(table, plain, mode="append", commit_properties=properties)

    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        with _errors(self.path, "read"):
            try:
                table = self._open(create=False)
            except TableNotFoundError:
                return ()
            only = None if key is None else pc.field("key") == key
            rows = rows_of(table, str(self.path), columns=SCHEMA.names, only=only).to_pylist()
        return [row_of(row, key=row.pop("key")) for row in rows]

    def _found(
        self, source_key: str, read: Callable[[Sequence[DataFile]], pa.Table | None]
    ) -> tuple[CheckpointRow, ...]:
        with _errors(self.path, "read"):
            try:
                table = self._open(create=False)
            except TableNotFoundError:
                return ()
            found = read(data_files(table, {PART: part_of(source_key)}))
        if found is None:
            return ()
        ordered = found.select(SCHEMA.names).sort_by(
            [(name, "ascending") for name in ("key", "generation", "batch_id")]
        )
        return tuple(row_of(row, key=row.pop("key")) for row in ordered.to_pylist())

    def _open(self, *, create: bool) -> DeltaTable:
        """The table as it is now. It is created empty: concurrent first rows could not be detected otherwise."""
        path = str(self.path)
        if self._table is not None and self._there():
            # Another table may have been put in its place.
            with suppress(DeltaError):
                self._table.update_incremental()
                return self._table
        if create and not is_table(path):
            make_folder(self.path)
            # Another process may create it at this moment.
            with suppress(DeltaError):
                DeltaTable.create(
                    path,
                    STORED,
                    partition_by=[PART, DAY],
                    configuration=dict(CONFIGURATION),
                    commit_properties=CommitProperties(custom_metadata=VERSIONED),
                    storage_options=storage_options(path),
                )
        self._table = delta_table(path)
        return self._table

    def _there(self) -> bool:
        """Whether there may be a table; in an object store only its log says so."""
        return not isinstance(self.path, Path) or self.path.exists()

    def _close(self) -> None:
        self._table = None


def part_of(source_key: str) -> str:
    """The partition of a source's rows.

    >>> part_of("shop;logs;file;totals")
    '8b6fcd9a9218bb86'
    """
    return hashlib.sha256(source_key.encode()).hexdigest()[:16]


def _of_source(source_key: str) -> pc.Expression:
    return pc.starts_with(pc.field("key"), pattern=f"{source_key}{QUEUE}")


def _let_go(table: DeltaTable, part: str, first: date) -> None:
    """Drop the days before `first`, except the newest row of each queue, in one transaction."""
    files = data_files(table, {PART: part})
    if not any(file.day is not None and FOR_GOOD < file.day < first for file in files):
        return
    kept = newest_of_each(files, "key", before=first)
    rows = SCHEMA.empty_table() if kept is None else kept.select(SCHEMA.names).cast(SCHEMA)
    rows = rows.append_column(STORED.field(PART), pa.array([part] * rows.num_rows, pa.string()))
    rows = rows.append_column(STORED.field(DAY), pa.array([FOR_GOOD] * rows.num_rows, pa.date32()))
    where = f"{PART} = '{part}' AND {DAY} < '{first.isoformat()}'"
    write_deltalake(table, rows, mode="overwrite", predicate=where)


def _writer(row: CheckpointRow) -> str:
    """The application transaction with the last stored batch of the row's source."""
    return f"checkpoints/{row.source_key}/{row.generation}"


def _last_batch(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version


def _stored(table: DeltaTable, path: str, rows: Sequence[CheckpointRow]) -> set[Identity]:
    """The identities of those of `rows` that are in the table."""
    if not rows:
        return set()
    only = pc.field("key").isin(list({row.key for row in rows}))
    only &= pc.field("batch_id").isin(list({row.batch_id for row in rows}))
    if partitioned(table):
        only &= pc.field(PART).isin(list({part_of(row.source_key) for row in rows}))
    found = rows_of(table, path, columns=IDENTITY, only=only).to_pylist()
    return {(each["key"], each["query"], each["generation"], each["batch_id"]) for each in found}


def _plain(row: CheckpointRow) -> Mapping[str, Any]:
    return {"key": row.key, **asdict(row), PART: part_of(row.source_key), DAY: day_of(row.at)}


@contextmanager
def _errors(path: Folder, what: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError, OverflowError) as error:
        raise CheckpointError(
            f"the checkpoints cannot be {what}",
            remedy="check that the catalog is intact and can be written; the engine's own checkpoint is not affected",
            table=path,
            cause=str(error)[:200],
        ) from error
