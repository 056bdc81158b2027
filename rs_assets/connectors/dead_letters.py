"""The dead-letter table: records that a pipeline could not use, with their position and the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Field, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.common.storage import is_remote, storage_options
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import check_fence, last_batch, open_table, properties
from rs_assets.connectors.sink import BatchMark, RefusedRow
from rs_assets.records.columns import RAW_LIMIT_BYTES

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
        ("source", pa.string()),
    ]
)

# The table's schema also has the generation that undid the dead letter's batch, null if the batch is valid.
UNDONE = "undone_by"
STORED = SCHEMA.append(pa.field(UNDONE, pa.int64()))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Appends to the Delta table at `path`; a batch that is repeated is written once.

    `source` (the name of its step), `split`, `line` (from 1) and `offset` (bytes, for lines of files) give the record's
    position, `record` its text (at most 64 KiB), `at` the time of the batch. Rows of windows, rows that a sink refused,
    and dead letters of earlier releases have null as their source. `undone_by` is null for valid dead letters. A
    pipeline that goes back to an earlier batch reads later records again; their previous dead letters then have its new
    generation in `undone_by`.
    """

    path: str

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch's dead letters are in the table."""
        table = open_table(self.path)
        if table is None:
            return False
        check_fence(table, mark)
        return last_batch(table, mark) >= mark.batch_id

    def write(self, rows: pa.Table, mark: BatchMark) -> int:
        """Append `rows` in one transaction with the marker of the batch; returns how many were new."""
        if not rows.num_rows or self.committed(mark):
            return 0
        if not is_remote(self.path):
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(
            self.path,
            rows.cast(SCHEMA).append_column(UNDONE, pa.nulls(rows.num_rows, pa.int64())),
            mode="append",
            schema_mode="merge",
            commit_properties=properties(mark),
            storage_options=storage_options(self.path),
        )
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
        """Mark the dead letters of a query that are not on the path to its target, and unmark those that are.

        `path` maps the generations on the path to their last batches; it is empty for a new beginning. `names` are all
        names that the query has had; None means all queries of the job. May be called twice.
        """
        table = open_table(self.path)
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


def refused_text(row: Mapping[str, object]) -> str:
    """A refused row as the text of its dead letter."""
    return json.dumps(dict(row), ensure_ascii=False, default=str)[:RAW_LIMIT_BYTES]


def refused_letters(rows: Sequence[RefusedRow], facts: Mapping[str, object]) -> pa.Table:
    """Dead letters of rows that a sink's system refused; they have no place in a source. `facts` are equal for all."""
    at = datetime.now(UTC)
    made = [
        {
            **dict.fromkeys(SCHEMA.names),
            **facts,
            "split": "",
            "line": 0,
            "offset": 0,
            "at": at,
            "reason": each.reason,
            "record": refused_text(each.row),
        }
        for each in rows
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def dead_letters_of(
    path: str, namespace: str, job: str, *, query: str | None = None, after: datetime | None = None
) -> pa.Table:
    """The valid dead letters of a job, or of one query, by time, source, split and line; none if there is no table yet.

    `after` limits them to later batches.
    """
    table = open_table(path)
    if table is None:
        return STORED.empty_table()
    dataset = dataset_of(table, path)
    wanted = (pc.field("namespace") == namespace) & (pc.field("job") == job)
    if UNDONE in dataset.schema.names:
        wanted &= pc.field(UNDONE).is_null()
    if query is not None:
        wanted &= pc.field("query") == query
    if after is not None:
        wanted &= pc.field("at") > pa.scalar(after, pa.timestamp("us", tz="UTC"))
    found = dataset.to_table(filter=wanted)
    if "source" not in found.column_names:
        # The table is of an earlier release.
        found = found.append_column("source", pa.nulls(found.num_rows, pa.string()))
    return found.sort_by([(name, "ascending") for name in ("at", "source", "split", "line")])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
