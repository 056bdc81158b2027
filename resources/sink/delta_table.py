"""A Delta table as sinks see it: opened once, with the marker of the last batch and the fence of the newest driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyspark.sql import DataFrame

from resources.errors import LeaseLostError, SinkError
from resources.sink.base import BatchMark

# Delta operations that add rows; others, such as a compaction, are nobody's data.
WRITES = frozenset({"WRITE", "MERGE", "CREATE TABLE"})
# `BatchMark.writer`: pipeline, generation, sink.
WRITER = re.compile(r"([^/]+)/g([0-9]+)/([^/]+)")


@dataclass(slots=True)
class TableHandle:
    """A table that is opened once; afterwards only new log entries are read."""

    path: str
    table: DeltaTable | None = None

    def newest(self) -> DeltaTable | None:
        """The newest version, None if there is no table."""
        if self.table is None:
            self.table = open_table(self.path)
        else:
            try:
                self.table.update_incremental()
            except DeltaError:
                # Somebody removed the table, or cleaned the log away under us.
                self.table = open_table(self.path)
        return self.table


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
    """LeaseLostError if the table remembers a greater token than `mark` carries."""
    seen = table.transaction_version(mark.fence)
    if seen is not None and seen > mark.token:
        raise LeaseLostError(
            "another driver has taken over and written since",
            remedy="nothing to do: this run ends here, the other one goes on",
            table=table.table_uri,
            token=mark.token,
            newer_token=seen,
        )


def properties(mark: BatchMark) -> CommitProperties:
    """The marker of a batch, the fencing token, and who wrote it, for the commit of its rows."""
    return CommitProperties(
        app_transactions=[Transaction(mark.writer, mark.batch_id), Transaction(mark.fence, mark.token)],
        custom_metadata={"rs.writer": mark.writer, "rs.batch_id": str(mark.batch_id)},
    )


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a Spark frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


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
