"""A handle on a Delta table for sinks: opened once, with the marker of the last batch and the newest fencing token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.files.staging import staging_of
from rs_assets.connectors.delta.log.commit_info import FENCED, HOME, fence_of, last_claim, written_by
from rs_assets.connectors.delta.log.fast_append import LogEntry, append_entry, checkpoint_due, log_entry, put_entry
from rs_assets.connectors.delta.log.retry import retried
from rs_assets.connectors.delta.log.sole_writer import SoleWriterCheck
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import SinkError
from rs_assets.records.columns import ORDER, RETRACTED


@dataclass(slots=True)
class TableHandle:
    """A table that is opened once; later only new log entries are read, and only if another writer made some.

    `table` is the version that was read last, `version` the current one: entries between them are this sink's own and
    add files only. `progress` are the batches that this process saw in the table, `sole_writer` the sole-writer check,
    `checked` what was compared with its rules, `staged` the folder in which batches were staged. `own` is the version
    of this process's last commit, `looked` the last version that was searched for removals by others, `reopened`
    whether the table was replaced by another one since then.
    """

    path: str
    step: str = ""
    table: DeltaTable | None = None
    version: int = -1
    progress: ProgressGuard = field(default_factory=ProgressGuard)
    sole_writer: SoleWriterCheck = field(default_factory=SoleWriterCheck)
    checked: object = None
    staged: Path | None = None
    own: int = -1
    looked: int = -1
    reopened: bool = False
    _entry: LogEntry | None = None
    _markers: dict[str, int] = field(default_factory=dict)

    def newest(self) -> DeltaTable | None:
        """The newest version, None if there is no table; SinkError if it cannot be read."""
        try:
            return self._newest()
        except DeltaError as error:
            raise SinkError(f"the table cannot be opened: {error}", step=self.step, table=self.path) from error

    def _newest(self) -> DeltaTable | None:
        if self.table is not None and not self.intact():
            # The table was removed or replaced, or its log was cleaned up, by another process.
            self.table, self.reopened = None, True
        if self.table is None:
            self.table = open_table(self.path)
        elif not self.current:
            try:
                self.table.update_incremental()
            except DeltaError:
                self.table, self.reopened = open_table(self.path), True
        else:
            return self.table
        self._markers.clear()
        self.version = -1 if self.table is None else self.table.version()
        self._entry = None if self.table is None else log_entry(self.path, self.version)
        return self.table

    @property
    def current(self) -> bool:
        """Whether `table` is the newest version."""
        return self.at_hand and self.known

    @property
    def known(self) -> bool:
        """True if no other writer has committed since `table` was loaded, so its metadata is current.

        The file list, the history and this sink's own markers may not be.
        """
        return self.table is not None and self.intact() and not log_entry(self.path, self.version + 1).there

    @property
    def at_hand(self) -> bool:
        """Whether `table` is at `version`, and the log entry of that version is unchanged."""
        return self.table is not None and self.table.version() == self.version and self.intact()

    def look(self) -> None:
        """Read the commits of other writers, if there are any."""
        if not self.known:
            self.newest()

    def committed(self, on: int) -> None:
        """Record a commit of this sink on top of version `on`; -1: it made the table."""
        self.sole_writer.committed(on)
        self.own, self.reopened = on + 1, False

    def append(self, actions: Sequence[AddAction], mark: BatchMark, *, partition_by: Sequence[str]) -> bool:
        """Add files by our own log entry after the version at which the marker was read.

        Returns False and changes nothing if another writer has committed meanwhile, if a checkpoint is due, which
        delta-rs must write, or in an object store. The rules of `table` must have been checked before.
        """
        version = self.version + 1
        if self.table is None or is_remote(self.path) or not self.known or checkpoint_due(self.table, version):
            return False
        if self.at_hand:
            self.sole_writer.others(self.table, mark, deep=False)
        metadata = properties(mark, **self.sole_writer.facts(self.version))
        entry = append_entry(actions, metadata, partition_by)
        if not put_entry(self.path, version, entry, beside=staging_of(Path(self.path), mark)):
            return False
        self.committed(self.version)
        self.version, self._entry = version, log_entry(self.path, version)
        self._markers |= {marker.app_id: marker.version for marker in metadata.app_transactions or ()}
        return True

    def last(self, mark: BatchMark) -> int:
        """The last batch of this writer in the loaded version, -1 for none.

        LeaseLostError if there is a newer driver's token, SinkError if this process has seen a later batch.
        """
        if self.table is None:
            last = -1
        else:
            # It searches the log; right after our own commit no other writer can have written.
            if self.reopened or self.version != self.own:
                check_fence(self.table, mark)
            last = self.marker(mark)
        return self.progress.advance(mark, last, step=self.step, place=self.path)

    def marker(self, mark: BatchMark) -> int:
        """The last batch of this writer in the loaded version, including our own later entries; -1 for none."""
        if self.table is not None and mark.writer not in self._markers:
            self._markers[mark.writer] = last_batch(self.table, mark)
        return self._markers.get(mark.writer, -1)

    def intact(self) -> bool:
        """Whether the log entry of the version that was opened is still the same file."""
        return self._entry is None or log_entry(self.path, self._entry.version) == self._entry


def open_table(path: str) -> DeltaTable | None:
    """The table at `path`, None if there is none."""
    try:
        return delta_table(path)
    except TableNotFoundError:
        return None


def last_batch(table: DeltaTable, mark: BatchMark) -> int:
    """The last batch of this writer in the table's markers, -1 for none."""
    version = table.transaction_version(mark.writer)
    return -1 if version is None else version


def check_fence(table: DeltaTable, mark: BatchMark) -> None:
    """LeaseLostError if the table has a greater token than `mark`, or a claim that `mark` does not know."""
    token, claim = table.transaction_version(mark.fence) or 0, 0
    if mark.claim is not None and mark.claim.known is not None:
        claim = table.transaction_version(mark.claimed) or 0
    home = str(last_claim(table, mark).get(HOME, "")) if mark.refuses(claim) else ""
    mark.check(LastWriter(token=token, claim=claim, home=home), where=table.table_uri)


def properties(mark: BatchMark, **facts: str) -> CommitProperties:
    """The marker of a batch, token and claim, the author and more `facts`, for the commit of its rows."""
    metadata = {f"rs.{name}": value for name, value in facts.items()}
    return CommitProperties(
        app_transactions=[Transaction(mark.writer, mark.batch_id), *fence_of(mark)],
        custom_metadata={**written_by(mark), **metadata},
    )


def commit_fence(table: DeltaTable, mark: BatchMark) -> None:
    """Commit the token of `mark` without rows and without a batch."""
    token = [Transaction(mark.fence, mark.token)]
    commit_no_rows(table, CommitProperties(app_transactions=token, custom_metadata={FENCED: mark.writer}))


def commit_no_rows(
    table: DeltaTable, metadata: CommitProperties, *, mode: Literal["append", "overwrite"] = "append"
) -> None:
    """Commit the properties `metadata` and no rows; with "overwrite" existing rows are removed."""
    table.create_write_transaction(
        [],
        mode=mode,
        schema=table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=metadata,
    )


def commit_again(handle: TableHandle, mark: BatchMark, commit: Callable[[DeltaTable | None], None]) -> None:
    """Commit on the version at which the marker was read; on the newest one if another writer committed in between.

    Each further try checks fence and marker again: LeaseLostError or CommitFailedError if a rival has the batch.
    """
    table: DeltaTable | None = None
    newest = not handle.at_hand

    def attempt() -> None:
        nonlocal table, newest
        table = newest_for(handle, mark) if newest else handle.table
        newest = True
        commit(table)

    def lost(error: Exception) -> bool:
        # A table that was created meanwhile cannot be created again; only then another error class means a rival.
        rival = isinstance(error, CommitFailedError) or (isinstance(error, DeltaError) and table is None)
        return rival and handle.last(mark) < mark.batch_id and open_table(handle.path) is not None

    retried(attempt, lost)


def newest_for(handle: TableHandle, mark: BatchMark) -> DeltaTable | None:
    """The newest version, provided that its next batch is that of `mark`."""
    table = handle.newest()
    if handle.last(mark) >= mark.batch_id:
        raise CommitFailedError(f"batch {mark.batch_id} was already committed")
    return table


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of the rows of a Spark frame, without positions and the flag of changes."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kept = [field for field in frame.schema.fields if field.name not in {*ORDER, RETRACTED}]
    return to_arrow_schema(StructType(kept), timezone="UTC")


@contextmanager
def sink_errors(step: str, path: str, mark: BatchMark) -> Iterator[None]:
    """Turns Delta's errors in the block into SinkError; LeaseLostError if a newer driver's commit was the reason."""
    try:
        yield
    except CommitFailedError as error:
        table = open_table(path)
        if table is not None:
            check_fence(table, mark)
        raise SinkError(
            f"another writer changed the table in the meantime: {error}",
            remedy="start again: the batch is computed again, and is skipped if it was committed",
            step=step,
            table=path,
        ) from error
    except DeltaError as error:
        raise SinkError(f"Delta refused the commit: {error}", step=step, table=path) from error
    except OSError as error:
        raise SinkError(
            f"the table cannot be written: {error}",
            remedy="check the disk, let this user write to the table and its folder _delta_log, then start again",
            step=step,
            table=path,
        ) from error
