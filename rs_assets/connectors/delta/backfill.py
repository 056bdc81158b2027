"""Replaces the rows of one partition of a table in one commit, while a stream writes to the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame

from rs_assets.common.plural import count_of
from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.files.data_files import BatchFiles, stage_files
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions, PartitionValue
from rs_assets.connectors.delta.files.stored_files import store_files
from rs_assets.connectors.delta.fitting import fitted
from rs_assets.connectors.delta.log.commit_info import (
    BACKFILLED,
    BACKFILLED_BATCH,
    BACKFILLED_LATE,
    BACKFILLED_PARTITION,
    FORGOTTEN,
    NEWEST,
    WRITER,
    noted,
)
from rs_assets.connectors.delta.log.retry import retried
from rs_assets.connectors.delta.log.sole_writer import SoleWriterCheck
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.rewind import newest_generation
from rs_assets.connectors.delta.table import arrow_schema
from rs_assets.connectors.delta.table_rules import Demand, check_files, check_rules
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import RsError, SinkError

File = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The partition of a table that is replaced: as it was in the version `read`, whose files go.

    Rows that are added to it after that version stay. `mark` is that of the last batch of which it has rows, `late` the
    last one whose late records it has, -1 for none. `adds`: fields that the table lacks become columns of it.
    """

    read: DeltaTable
    partitions: EventTimePartitions
    value: PartitionValue
    mark: BatchMark
    late: int
    adds: bool = False

    def check(self) -> None:
        """SinkError if the table has, or may have, rows of other writers, which would be replaced, too, or marked rows.

        The log names a file with a deletion vector by both; delta-rs, which commits, does not know of it.
        """
        if "deletionVectors" in (self.read.protocol().reader_features or ()):
            raise SinkError(
                "the table may have deletion vectors, so its files cannot be replaced one by one",
                remedy="let Spark rewrite it: ALTER TABLE ... DROP FEATURE deletionVectors, then start again",
                step=self.mark.sink,
                table=self.read.table_uri,
            )
        others = SoleWriterCheck().others(self.read, self.mark, deep=True)
        if others:
            raise SinkError(
                f"a backfill would replace all rows of the partition, but {others}",
                remedy="write to a table of its own, or correct the rows of this partition by hand",
                step=self.mark.sink,
                table=self.read.table_uri,
            )

    @property
    def rows(self) -> int:
        """The rows of the partition in the version that was read."""
        return sum(int(str(file["num_records"] or 0)) for file in _files(self.read, self.partitions, self.value))

    def write(self, rows: DataFrame, *, path: str, refuse: Callable[[], None]) -> tuple[int, int]:
        """Replace the partition by `rows`; returns how many they are, and the version that has them.

        SinkError if the table has changed in a way that needs the rows to be computed again, or forbids them. `refuse`
        is called before the commit, and raises an RsError if the rows must not be written any more.
        """
        rows, table = fitted(rows, self.read, path, self.mark) if self.adds else (rows, self.read)
        demand = Demand(
            step=self.mark.sink,
            schema=DeltaSchema.from_arrow(arrow_schema(rows)),
            partition_by=tuple(table.metadata().partition_columns),
            only_adds=False,
            adds=self.adds,
        )
        check_rules(table, demand)
        files = self._staged(rows, path, demand.partition_by)
        try:
            check_files(table, demand, files)
            refuse()
        except RsError:
            files.discard()
            raise
        return files.rows, self._commit(files, path)

    def _staged(self, rows: DataFrame, path: str, partition_by: tuple[str, ...]) -> BatchFiles:
        return stage_apart(rows, path, self.mark, partition_by, purpose="backfill")

    def _commit(self, files: BatchFiles, path: str) -> int:
        """Commit on the version whose files were compared: a compaction after it would bring the old rows back."""
        gone = {str(file["path"]) for file in _files(self.read, self.partitions, self.value)}
        added: list[AddAction] | None = None

        def attempt() -> None:
            nonlocal added
            table = delta_table(path)
            there = {str(file["path"]): file for file in _files(table, self.partitions, self.value)}
            if not gone <= there.keys() or self._disturbed(table):
                raise self._changed()
            removed = [removal(there[name], self.read, data_change=True) for name in sorted(gone)]
            added = files.placed(step=self.mark.sink) if added is None else added
            table.create_write_transaction(
                [*removed, *added],
                mode="append",
                schema=table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(custom_metadata=self._noted, max_commit_retries=0),
            )

        try:
            retried(attempt)
        except CommitFailedError as error:
            raise self._changed() from error
        return self._checked(path, gone)

    def _disturbed(self, table: DeltaTable) -> bool:
        """Whether the table has had the rows of another backfill, went back or was cut since it was read.

        Of a partition that was empty then no file is missing that would show it.
        """
        since = table.version() - self.read.version()
        entries = [noted(entry) for entry in table.history(since)] if since > 0 else []
        if len(entries) != since:
            return True
        key = self.partitions.key(self.value)
        if any(entry.get(BACKFILLED_PARTITION) == key or entry.get(FORGOTTEN) for entry in entries):
            return True
        return newest_generation(table, self.mark) > self.mark.generation

    @property
    def _noted(self) -> dict[str, str]:
        return {
            BACKFILLED: self.mark.writer,
            BACKFILLED_BATCH: str(self.mark.batch_id),
            BACKFILLED_PARTITION: self.partitions.key(self.value),
            BACKFILLED_LATE: str(self.late),
        }

    def _checked(self, path: str, gone: set[str]) -> int:
        """The newest version, which no longer has the files that were replaced."""
        table = delta_table(path)
        left = gone & {str(file["path"]) for file in _files(table, self.partitions, self.value)}
        if left:
            raise SinkError(
                f"the table still has {count_of(len(left), 'file')} that a backfill has replaced: rows are there twice",
                remedy=f"restore the table to version {self.read.version()} (DeltaTable.restore), and report this",
                step=self.mark.sink,
                table=path,
            )
        return int(table.version())

    def _changed(self) -> SinkError:
        return SinkError(
            f"the partition {self.partitions.key(self.value)} was rewritten by another process in the meantime, or the"
            " table was written to each time",
            remedy="start the backfill again: a compaction, another backfill or a rewind came before it",
            step=self.mark.sink,
            table=self.read.table_uri,
        )


@dataclass(frozen=True, slots=True)
class Fill:
    """A backfill that a table has: its commit, the partition, the last batches of its rows and of its late records."""

    version: int
    partition: str
    generation: int
    batch: int
    late: int


def newest_fills(table: DeltaTable, pipeline_id: str, sink: str) -> Iterator[Fill]:
    """The backfills among the newest commits of a table, in their order.

    One that was killed after its commit is in no catalog.
    """
    for entry in reversed([noted(entry) for entry in table.history(NEWEST)]):
        match = WRITER.fullmatch(str(entry.get(BACKFILLED, "")))
        if match is not None and (match[1], match[3]) == (pipeline_id, sink) and BACKFILLED_LATE in entry:
            batches = int(match[2]), int(entry[BACKFILLED_BATCH]), int(entry[BACKFILLED_LATE])
            yield Fill(int(entry["version"]), str(entry[BACKFILLED_PARTITION]), *batches)


def stage_apart(
    rows: DataFrame, path: str, mark: BatchMark, partition_by: tuple[str, ...], *, purpose: str
) -> BatchFiles:
    """Compute `rows` and write them next to a stream, which removes what its own sink has staged when it starts."""
    apart = replace(mark, sink=f"{mark.sink}.{purpose}")
    if is_remote(path):
        return store_files(rows, path, apart, partition_by=partition_by)
    return stage_files(rows, Path(path), apart, partition_by=partition_by, step=mark.sink)


def removal(file: File, table: DeltaTable, *, data_change: bool) -> RemoveAction:
    """The action that removes `file`, as `get_add_actions(flatten=True)` of its table names it."""
    # The names of added files are as in the log, escaped; that of a removed one is escaped by the commit.
    return RemoveAction(
        path=unquote(str(file["path"])),
        data_change=data_change,
        deletion_timestamp=int(time.time() * 1000),
        size=int(str(file["size_bytes"])),
        # Without them a reader of the change feed is refused.
        partition_values=partition_values(file, table),
    )


def partition_values(file: File, table: DeltaTable) -> dict[str, str | None]:
    """The values of the partition columns of a file, as in the log."""
    return {name: _as_in_log(file[f"partition.{name}"]) for name in table.metadata().partition_columns}


def _files(table: DeltaTable, partitions: EventTimePartitions, value: PartitionValue) -> list[File]:
    added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    column = f"partition.{partitions.column}"
    return [file for file in added if partitions.stored(file.get(column)) == value]


def _as_in_log(value: object) -> str | None:
    """A value of a partition as the log of Delta has it.

    >>> from datetime import date
    >>> _as_in_log(datetime(2026, 1, 5, 10)), _as_in_log(date(2026, 1, 5)), _as_in_log(True), _as_in_log(None)
    ('2026-01-05T10:00:00.000000Z', '2026-01-05', 'true', None)
    """
    if isinstance(value, datetime):
        at = value.astimezone(UTC) if value.tzinfo is not None else value
        return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
