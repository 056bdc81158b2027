"""The dead-letter table: records that a pipeline could not use, with their place and the reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from resources.sink.base import BatchMark
from resources.sink.delta_table import check_fence, last_batch, open_table, properties

SCHEMA = pa.schema(
    [
        ("namespace", pa.string()),
        ("job", pa.string()),
        ("generation", pa.int64()),
        ("query", pa.string()),
        ("batch_id", pa.int64()),
        ("step", pa.string()),
        ("split", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("record", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Appends to the Delta table at `path`; a batch that is repeated is written once.

    `split`, `line` (from 1) and `offset` (bytes, for lines of files) say where the record stands, `record` holds its
    text, at most 64 KiB of it, `at` the time of the batch.
    """

    path: Path

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch's letters are in the table."""
        table = open_table(str(self.path))
        if table is None:
            return False
        check_fence(table, mark)
        return last_batch(table, mark) >= mark.batch_id

    def write(self, rows: pa.Table, mark: BatchMark) -> int:
        """Append `rows` in one transaction that remembers the batch; returns how many were new."""
        if not rows.num_rows or self.committed(mark):
            return 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(self.path), rows.cast(SCHEMA), mode="append", commit_properties=properties(mark))
        return int(rows.num_rows)
