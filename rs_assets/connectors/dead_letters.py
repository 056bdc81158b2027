"""The dead-letter table: records that a pipeline could not use, with their position and the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
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
        ("whole", pa.bool_()),
        ("code", pa.string()),
    ]
)

# What became of a dead letter, null at first: the generation that undid its batch; the redrive that counts and its
# time, all its redrives with their places (see `Redrives`), the redrive that has begun, and how often one refused it.
UNDONE, REDRIVEN, REDRIVEN_AT = "undone_by", "redriven_by", "redriven_at"
REDRIVES, REDRIVING, TRIES = "redrives", "redriving", "tries"
STATE: Final[Mapping[str, str]] = MappingProxyType(
    {
        UNDONE: "long",
        REDRIVEN: "long",
        REDRIVEN_AT: "timestamp",
        REDRIVES: "string",
        REDRIVING: "string",
        TRIES: "long",
    }
)
ARROW = {"long": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC"), "string": pa.string(), "boolean": pa.bool_()}
STORED = pa.schema([*SCHEMA, *((name, ARROW[kind]) for name, kind in STATE.items())])
# A commit that lost against a batch with dead letters is tried again.
again = retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.01, max=0.5),
    reraise=True,
)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Appends to the Delta table at `path`; a batch that is repeated is written once.

    `source` (the name of its step), `split`, `line` (from 1) and `offset` (bytes, for lines of files) give the record's
    position, `record` its text (at most 64 KiB), `at` the time of the batch, `code` the digest of the steps. Rows of
    windows, rows that a sink refused, and dead letters of earlier releases have null as their source. `whole`: no row
    of the record has reached an output of the query. `undone_by` and `redriven_by` are null for valid dead letters. A
    pipeline that goes back to an earlier batch reads later records again; their previous dead letters then have its new
    generation in `undone_by`. `redriven_by` is the number of the redrive by which rows of the record are in the output.
    """

    path: str

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch's dead letters are in the table."""
        table = open_table(self.path)
        if table is None:
            return False
        check_fence(table, mark)
        return last_batch(table, mark) >= mark.batch_id

    @again
    def write(self, rows: pa.Table, mark: BatchMark) -> int:
        """Append `rows` in one transaction with the marker of the batch; returns how many were new."""
        if not rows.num_rows or self.committed(mark):
            return 0
        if not is_remote(self.path):
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(
            self.path,
            _stored(rows.cast(SCHEMA)),
            mode="append",
            schema_mode="merge",
            commit_properties=properties(mark),
            storage_options=storage_options(self.path),
        )
        return int(rows.num_rows)

    @again
    def go_to(
        self, path: Mapping[int, int], begun: BatchMark, *, job: tuple[str, str], names: Sequence[str] | None
    ) -> None:
        """Mark the dead letters of a query that are not on the path to its target, and unmark those that are.

        Redrives count as far as they are on the path, too. `path` maps the generations on the path to their last
        batches; it is empty for a new beginning. `names` are all names that the query has had; None means all queries
        of the job. May be called twice.
        """
        table = with_state(self.path)
        if table is None:
            return
        own = letters_of(*job)
        if names is not None:
            own += f" AND query IN ({', '.join(map(quoted_text, names))})"
        leads = " OR ".join(f"(generation = {g} AND batch_id <= {last})" for g, last in path.items()) or "FALSE"
        stands = f"({leads})"
        table.update(
            predicate=f"{own} AND (({UNDONE} IS NULL AND NOT {stands}) OR ({UNDONE} IS NOT NULL AND {stands}))",
            updates={UNDONE: f"CASE WHEN {stands} THEN CAST(NULL AS BIGINT) ELSE {begun.generation} END"},
            commit_properties=_fenced(begun),
        )
        for text, now in redrives_on(path, self.path, job).items():
            table = with_state(self.path)
            assert table is not None  # it was there
            other = f"{REDRIVEN} IS NOT NULL" if now is None else f"({REDRIVEN} IS NULL OR {REDRIVEN} <> {now})"
            table.update(
                predicate=f"{own} AND {REDRIVES} = {quoted_text(text)} AND {other}",
                updates={REDRIVEN: f"CAST({'NULL' if now is None else now} AS BIGINT)"},
                commit_properties=_fenced(begun),
            )


def _fenced(begun: BatchMark) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(begun.fence, begun.token)])


def with_state(path: str) -> DeltaTable | None:
    """The table with all columns of STORED, which one of an earlier release lacks; None if there is none."""
    table = open_table(path)
    if table is None:
        return None
    there = {field.name for field in table.schema().fields}
    kinds = {"source": "string", "whole": "boolean", "code": "string", **STATE}
    lacking = [Field(name, PrimitiveType(kind)) for name, kind in kinds.items() if name not in there]
    if lacking:
        table.alter.add_columns(lacking)
        table.update_incremental()
    return table


def redrives_on(path: Mapping[int, int], table: str, job: tuple[str, str]) -> Mapping[str, int | None]:
    """For each text in REDRIVES of a job: the number of its newest redrive on `path`, None for none."""
    texts = stored_letters(table, *job, pc.field(REDRIVES).is_valid())[REDRIVES].unique().to_pylist()
    return {text: redrive_on(path, text) for text in texts}


def redrive_on(path: Mapping[int, int], redrives: str) -> int | None:
    """The number of the newest of `redrives` whose batch is on `path`: "number:generation:batch", with blanks between.

    >>> redrive_on({2: 5}, "1:1:3 2:2:4 7:2:6")
    2
    """
    each = [tuple(map(int, text.split(":"))) for text in redrives.split()]
    return max((number for number, generation, batch in each if batch <= path.get(generation, -1)), default=None)


def _stored(rows: pa.Table) -> pa.Table:
    for name, kind in STATE.items():
        rows = rows.append_column(name, pa.nulls(rows.num_rows, ARROW[kind]))
    return rows


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
    path: str,
    namespace: str,
    job: str,
    *,
    query: str | None = None,
    batch: int | None = None,
    after: datetime | None = None,
) -> pa.Table:
    """The valid dead letters of a job, or of one query, by time, source, split and line; none if there is no table yet.

    Those of batches that were undone, and those that were redriven, are not valid. `batch` takes those of one batch,
    `after` those of later ones alone.
    """
    wanted = pc.field(UNDONE).is_null() & pc.field(REDRIVEN).is_null()
    if query is not None:
        wanted &= pc.field("query") == query
    if batch is not None:
        wanted &= pc.field("batch_id") == batch
    if after is not None:
        wanted &= pc.field("at") > pa.scalar(after, pa.timestamp("us", tz="UTC"))
    found = stored_letters(path, namespace, job, wanted)
    return found.sort_by([(name, "ascending") for name in ("at", "source", "split", "line")])


def stored_letters(path: str, namespace: str, job: str, wanted: pc.Expression) -> pa.Table:
    """The dead letters of a job for which `wanted` holds; a column that an earlier release did not write is null."""
    table = open_table(path)
    if table is None:
        return STORED.empty_table()
    own = (pc.field("namespace") == namespace) & (pc.field("job") == job)
    return dataset_of(table, path).replace_schema(STORED).to_table(filter=own & wanted)


def letters_of(namespace: str, job: str) -> str:
    """The SQL condition for the dead letters of a job."""
    return f"namespace = {quoted_text(namespace)} AND job = {quoted_text(job)}"


def quoted_text(text: str) -> str:
    """`text` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
