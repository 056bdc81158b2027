"""The dead-letter table: records that a pipeline could not use, with their place and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Field, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import check_fence, last_batch, open_table, properties
from rs_assets.connectors.sink import BatchMark

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

# In the table also the generation that took the letter's batch back, null if it stands.
UNDONE = "undone_by"
STORED = SCHEMA.append(pa.field(UNDONE, pa.int64()))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Appends to the Delta table at `path`; a batch that is repeated is written once.

    `split`, `line` (from 1) and `offset` (bytes, for lines of files) say where the record stands, `record` holds its
    text, at most 64 KiB of it, `at` the time of the batch. `undone_by` is null for letters that count: a pipeline that
    went back behind a batch reads its records again, and those of before have the generation in which it does.
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
        stored = rows.cast(SCHEMA).append_column(UNDONE, pa.nulls(rows.num_rows, pa.int64()))
        write_deltalake(str(self.path), stored, mode="append", schema_mode="merge", commit_properties=properties(mark))
        return int(rows.num_rows)

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def go_to(
        self, path: Mapping[int, int], begun: BatchMark, *, job: tuple[str, str], names: Sequence[str] | None
    ) -> None:
        """Mark the letters of a query that do not lead to where it goes, and take the mark from those that do.

        `path` maps the generations that lead there to their last batches, none if it begins anew; `names` are those
        that the query has had, None for those of all queries of the job. May be called twice.
        """
        table = open_table(str(self.path))
        if table is None:
            return
        if UNDONE not in {field.name for field in table.schema().fields}:
            table.alter.add_columns([Field(UNDONE, PrimitiveType("long"))])
            table.update_incremental()
        own = f"namespace = {_quoted(job[0])} AND job = {_quoted(job[1])}"
        if names is not None:
            own += f" AND query IN ({', '.join(map(_quoted, names))})"
        leads = " OR ".join(f"(generation = {g} AND batch_id <= {last})" for g, last in path.items()) or "FALSE"
        stands = f"({leads})"
        table.update(
            predicate=f"{own} AND (({UNDONE} IS NULL AND NOT {stands}) OR ({UNDONE} IS NOT NULL AND {stands}))",
            updates={UNDONE: f"CASE WHEN {stands} THEN CAST(NULL AS BIGINT) ELSE {begun.generation} END"},
            commit_properties=CommitProperties(app_transactions=[Transaction(begun.fence, begun.token)]),
        )


def letters_of(path: Path, namespace: str, job: str, *, after: datetime | None = None) -> pa.Table:
    """The letters of a job that count, by time, split and line; none where there is no table yet.

    With `after` only those of later batches.
    """
    table = open_table(str(path))
    if table is None:
        return STORED.empty_table()
    dataset = dataset_of(table, str(path))
    wanted = (pc.field("namespace") == namespace) & (pc.field("job") == job)
    if UNDONE in dataset.schema.names:
        wanted &= pc.field(UNDONE).is_null()
    if after is not None:
        wanted &= pc.field("at") > pa.scalar(after, pa.timestamp("us", tz="UTC"))
    return dataset.to_table(filter=wanted).sort_by([(name, "ascending") for name in ("at", "split", "line")])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
