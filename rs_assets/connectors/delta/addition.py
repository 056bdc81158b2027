"""Adds the rows of dead letters to a table in one commit, which can be made once, while a stream writes to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from rs_assets.connectors.delta.backfill import stage_apart
from rs_assets.connectors.delta.files.data_files import BatchFiles
from rs_assets.connectors.delta.fitting import fitted
from rs_assets.connectors.delta.log.commit_info import FENCED, REDRIVE, REDRIVEN, REDRIVEN_BATCH
from rs_assets.connectors.delta.log.retry import retried
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.rewind import newest_generation, refuse_changes
from rs_assets.connectors.delta.table import arrow_schema, commit_no_rows, open_table
from rs_assets.connectors.delta.table_rules import Demand, check_files, check_rules
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The rows of a redrive of dead letters, for the table at `path`.

    `mark` names the sink, its generation and a batch that is committed, `committed` returns the last one by now.
    `claim` is the id of the redrive: a table that has it has the rows. `number` grows from one redrive of the sink to
    the next; once a table has a greater one, those before it no longer commit. `adds`: fields that the table lacks
    become columns of it.
    """

    path: str
    mark: BatchMark
    committed: Callable[[], int]
    claim: str
    number: int
    adds: bool = False

    def done_at(self) -> int | None:
        """The last batch before the commit of this redrive; None if the table has no such commit."""
        table = open_table(self.path)
        return None if table is None else table.transaction_version(self.claim)

    def fence(self) -> None:
        """Commit `number` alone: redrives before it commit nothing from now on. Nothing if there is no table."""
        retried(self._fence)

    def _fence(self) -> None:
        table = open_table(self.path)
        if table is None or (table.transaction_version(_numbers(self.mark)) or 0) >= self.number:
            return
        fence = [Transaction(_numbers(self.mark), self.number)]
        commit_no_rows(table, CommitProperties(app_transactions=fence, custom_metadata=self._fenced))

    def newest_generation(self) -> int:
        """The generation of the newest batch or return in the table, 0 for none."""
        table = open_table(self.path)
        return 0 if table is None else newest_generation(table, self.mark)

    @property
    def _fenced(self) -> dict[str, str]:
        return {FENCED: self.mark.writer}

    def staged(self, rows: DataFrame) -> BatchFiles:
        """Compute `rows` and write them out of sight; SinkError if the table's rules forbid them, or it is not there.

        A table without a batch of this generation has no place for them: the next one might replace all rows.
        """
        table = self._checked(self._open())
        if self.adds:
            rows, table = fitted(rows, table, self.path, self.mark)
        demand = Demand(
            step=self.mark.sink,
            schema=DeltaSchema.from_arrow(arrow_schema(rows)),
            partition_by=tuple(table.metadata().partition_columns),
            only_adds=True,
            adds=self.adds,
        )
        check_rules(table, demand)
        files = stage_apart(rows, self.path, self.mark, demand.partition_by, purpose="redrive")
        try:
            check_files(table, demand, files)
        except SinkError:
            files.discard()
            raise
        return files

    def commit(self, files: BatchFiles) -> tuple[int, int]:
        """Add `files` in one commit; returns its version, and the last batch before it.

        SinkError if the pipeline went back in the meantime, if a later redrive has begun, or if the table was written
        to at each try.
        """
        added: list[AddAction] | None = None

        def attempt() -> tuple[int, int]:
            nonlocal added
            table = self._checked(self._open())
            batch = max(self.committed(), self.mark.batch_id, table.transaction_version(self.mark.writer) or 0)
            added = files.placed(step=self.mark.sink) if added is None else added
            table.create_write_transaction(
                [*added],
                mode="append",
                schema=table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=self._properties(table, batch),
            )
            return table.version() + 1, batch

        try:
            return retried(attempt)
        except CommitFailedError as error:
            raise SinkError(
                "the table was written to each time when the rows of dead letters were to be added",
                remedy="start the redrive again",
                step=self.mark.sink,
                table=self.path,
            ) from error

    def _properties(self, table: DeltaTable, batch: int) -> CommitProperties:
        """The marker; with the token of the pipeline, so that it conflicts with a rewind at the same time."""
        token = table.transaction_version(self.mark.fence) or 0
        return CommitProperties(
            app_transactions=[
                Transaction(self.claim, batch),
                Transaction(_numbers(self.mark), self.number),
                Transaction(self.mark.fence, token),
            ],
            custom_metadata={
                REDRIVEN: self.mark.writer,
                REDRIVEN_BATCH: str(batch),
                REDRIVE: str(self.number),
            },
            max_commit_retries=0,
        )

    def _open(self) -> DeltaTable:
        if open_table(self.path) is None:
            raise _unwritten(self.mark, self.path)
        return delta_table(self.path)

    def _checked(self, table: DeltaTable) -> DeltaTable:
        """The table, if the next commit may add the rows."""
        generation = newest_generation(table, self.mark)
        if generation < self.mark.generation:
            raise _unwritten(self.mark, self.path)
        if generation > self.mark.generation:
            raise SinkError(
                "the pipeline has gone back, or begun a new generation, in the meantime",
                remedy="start the redrive again",
                step=self.mark.sink,
                table=self.path,
            )
        if (table.transaction_version(_numbers(self.mark)) or 0) > self.number:
            raise SinkError(
                "a later redrive of these dead letters has begun in the meantime",
                remedy="nothing to do: the later one goes on",
                step=self.mark.sink,
                table=self.path,
            )
        refuse_changes(table, self.mark, own=-1, path=self.path)
        return table


def last_number(path: str, mark: BatchMark) -> int:
    """The greatest number of a redrive in a table, 0 for none."""
    table = open_table(path)
    return 0 if table is None else table.transaction_version(_numbers(mark)) or 0


def _numbers(mark: BatchMark) -> str:
    """The id under which a table stores the greatest number of a redrive: one per pipeline and sink."""
    return f"{mark.pipeline_id}/redrive/{mark.sink}"


def _unwritten(mark: BatchMark, path: str) -> SinkError:
    return SinkError(
        "the table has no batch of this generation yet, so the next one may make or replace it",
        remedy="let the pipeline write a batch with rows first",
        step=mark.sink,
        table=path,
    )
