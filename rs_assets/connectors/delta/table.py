"""A Delta table as sinks see it: opened once, with the marker of the last batch and the fence of the newest driver."""

from __future__ import annotations

import random
import time
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

from rs_assets.connectors.delta.commit_info import FENCED, HOME, fence_of, last_claim, written_by
from rs_assets.connectors.delta.fast_append import LogEntry, append_entry, checkpoint_due, log_entry, put_entry
from rs_assets.connectors.delta.ownership import Authors
from rs_assets.connectors.delta.staging import staging_of
from rs_assets.connectors.progress_guard import Remembered
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import SinkError
from rs_assets.records.columns import ORDER

# How long a commit that lost against another one waits before each further try, in seconds.
WAITS_S = (0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(slots=True)
class TableHandle:
    """A table that is opened once; afterwards only new log entries are read, and only if others made some.

    `table` is the version that was read last, `version` where the table stands: entries between them are this sink's
    own and add files only. `remembered` are the batches that this process saw in it, `authors` whose rows it holds,
    `checked` what was compared with its rules, `staged` whether a batch was staged in it, `own` the version of this
    process's last commit, `looked` the last one that was searched for what others took out of it, `reopened` whether
    that was another table since.
    """

    path: str
    step: str = ""
    table: DeltaTable | None = None
    version: int = -1
    remembered: Remembered = field(default_factory=Remembered)
    authors: Authors = field(default_factory=Authors)
    checked: object = None
    staged: bool = False
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
            # Somebody removed the table, put another one in its place, or cleaned the log away under us.
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
        """Whether nobody but this sink has committed since `table` was read: `table` tells what the newest one does.

        But for its files, its history and the markers of this sink.
        """
        return self.table is not None and self.intact() and not log_entry(self.path, self.version + 1).there

    @property
    def at_hand(self) -> bool:
        """Whether `table` stands at `version`, and that version is the file that it was."""
        return self.table is not None and self.table.version() == self.version and self.intact()

    def look(self) -> None:
        """Read what others have committed; nothing is read if there is nothing."""
        if not self.known:
            self.newest()

    def committed(self, on: int) -> None:
        """Note a commit of this sink on version `on`; -1: it made the table."""
        self.authors.committed(on)
        self.own, self.reopened = on + 1, False

    def append(self, actions: Sequence[AddAction], mark: BatchMark, *, partition_by: Sequence[str]) -> bool:
        """Add files by a log entry of our own behind the version at which the marker was read.

        False, and nothing is changed, if somebody else has committed meanwhile, or if a checkpoint is due: that is
        delta-rs's work. The rules of `table` were looked at before.
        """
        version = self.version + 1
        if self.table is None or not self.known or checkpoint_due(self.table, version):
            return False
        if self.at_hand:
            self.authors.others(self.table, mark, deep=False)
        told = properties(mark, **self.authors.facts(self.version))
        entry = append_entry(actions, told, partition_by)
        if not put_entry(self.path, version, entry, beside=staging_of(Path(self.path), mark)):
            return False
        self.committed(self.version)
        self.version, self._entry = version, log_entry(self.path, version)
        self._markers |= {marker.app_id: marker.version for marker in told.app_transactions or ()}
        return True

    def last(self, mark: BatchMark) -> int:
        """The last batch of this writer in the version at hand, -1 for none.

        LeaseLostError if there is a newer driver's token, SinkError if there was a later batch in this process.
        """
        if self.table is None:
            last = -1
        else:
            # It searches the log; right behind a commit of ours nobody else can have written.
            if self.reopened or self.version != self.own:
                check_fence(self.table, mark)
            last = self.marker(mark)
        return self.remembered.hold(mark, last, step=self.step, place=self.path)

    def marker(self, mark: BatchMark) -> int:
        """The last batch of this writer in the version at hand, entries of our own among it; -1 for none."""
        if self.table is not None and mark.writer not in self._markers:
            self._markers[mark.writer] = last_batch(self.table, mark)
        return self._markers.get(mark.writer, -1)

    def intact(self) -> bool:
        """Whether the log entry of the version that was opened is the file that it was."""
        return self._entry is None or log_entry(self.path, self._entry.version) == self._entry


def open_table(path: str) -> DeltaTable | None:
    """The table at `path`, None if there is none."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def last_batch(table: DeltaTable, mark: BatchMark) -> int:
    """The last batch of this writer that the table remembers, -1 for none."""
    version = table.transaction_version(mark.writer)
    return -1 if version is None else version


def check_fence(table: DeltaTable, mark: BatchMark) -> None:
    """LeaseLostError if the table remembers a greater token than `mark` carries, or a claim that it does not know."""
    token, claim = table.transaction_version(mark.fence) or 0, 0
    if mark.claim is not None and mark.claim.known is not None:
        claim = table.transaction_version(mark.claimed) or 0
    home = str(last_claim(table, mark).get(HOME, "")) if mark.refuses(claim) else ""
    mark.check(LastWriter(token=token, claim=claim, home=home), where=table.table_uri)


def properties(mark: BatchMark, **facts: str) -> CommitProperties:
    """The marker of a batch, token and claim, who wrote it and more `facts`, for the commit of its rows."""
    told = {f"rs.{name}": value for name, value in facts.items()}
    return CommitProperties(
        app_transactions=[Transaction(mark.writer, mark.batch_id), *fence_of(mark)],
        custom_metadata={**written_by(mark), **told},
    )


def commit_fence(table: DeltaTable, mark: BatchMark) -> None:
    """Commit the token of `mark` without rows and without a batch."""
    token = [Transaction(mark.fence, mark.token)]
    commit_no_rows(table, CommitProperties(app_transactions=token, custom_metadata={FENCED: mark.writer}))


def commit_no_rows(
    table: DeltaTable, told: CommitProperties, *, mode: Literal["append", "overwrite"] = "append"
) -> None:
    """Commit what is `told` and no rows; with "overwrite" those that are there go."""
    table.create_write_transaction(
        [], mode=mode, schema=table.schema(), partition_by=table.metadata().partition_columns, commit_properties=told
    )


def commit_again(handle: TableHandle, mark: BatchMark, commit: Callable[[DeltaTable | None], None]) -> None:
    """Commit on the version at which the marker was read; on the newest one if somebody else committed in between.

    Each further try looks at fence and marker anew: LeaseLostError or CommitFailedError if a rival has the batch.
    """
    table = handle.table if handle.at_hand else newest_for(handle, mark)
    for wait_s in (*WAITS_S, None):
        try:
            commit(table)
        except DeltaError as error:
            # A table that was made meanwhile cannot be made; only then an error of another class tells of a rival.
            beaten = isinstance(error, CommitFailedError) or table is None
            if wait_s is None or not beaten or open_table(handle.path) is None:
                raise
        else:
            return
        time.sleep(wait_s * random.uniform(0.5, 1.5))  # noqa: S311  no secret
        table = newest_for(handle, mark)


def newest_for(handle: TableHandle, mark: BatchMark) -> DeltaTable | None:
    """The newest version, as long as it awaits the batch of `mark`."""
    table = handle.newest()
    if handle.last(mark) >= mark.batch_id:
        raise CommitFailedError(f"batch {mark.batch_id} is there already")
    return table


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of the rows of a Spark frame: without the columns that say where they were read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kept = [field for field in frame.schema.fields if field.name not in ORDER]
    return to_arrow_schema(StructType(kept), timezone="UTC")


@contextmanager
def sink_errors(step: str, path: str, mark: BatchMark) -> Iterator[None]:
    """What Delta refuses within, as SinkError; LeaseLostError if a newer driver's commit was the reason."""
    try:
        yield
    except CommitFailedError as error:
        table = open_table(path)
        if table is not None:
            check_fence(table, mark)
        raise SinkError(
            f"another writer changed the table in between: {error}",
            remedy="start again: the batch is computed once more, and is skipped if it is there",
            step=step,
            table=path,
        ) from error
    except DeltaError as error:
        raise SinkError(f"Delta refused the commit: {error}", step=step, table=path) from error
    except OSError as error:
        raise SinkError(
            f"the table cannot be written: {error}",
            remedy="see to the disk and let this user write to the table and its folder _delta_log, then start again",
            step=step,
            table=path,
        ) from error
