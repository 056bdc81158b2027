"""State as a Delta table: a version per snapshot, with time travel, differences and lineage."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.connectors.delta.log.commit_info import WRITER
from rs_assets.connectors.delta.rows import rows_of
from rs_assets.connectors.delta.table import (
    TableHandle,
    check_fence,
    commit_again,
    last_batch,
    open_table,
    properties,
)
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError, SinkError
from rs_assets.operators.state.reader import (
    BATCH,
    CHANGE,
    DELETED,
    KEY,
    PARTITION,
    VALUE,
    StateOf,
    state_changes,
    state_rows,
)

# If more than this share of rows has changed, writing all of them is faster.
MOST_CHANGED = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """The result of a snapshot: `rows` of state, of which `changed` were written now (all of them if `whole`)."""

    path: str
    batch_id: int
    version: int
    rows: int
    changed: int
    whole: bool
    changes: pa.Table | None = None


def write_state(spark: SparkSession, state: StateOf, *, path: str, mark: BatchMark) -> StateSnapshot:
    """Bring the table at `path` to the state after batch `mark.batch_id`; the same batch twice writes nothing.

    Columns: key and value (JSON), partition, batch_id (of the row's last change, as far as snapshots show it). The
    changes since the last snapshot are merged, if the files of state still have them and they are few; otherwise
    Spark's tasks write all rows, and nothing is collected.
    """
    table = open_table(path)
    if table is not None:
        check_fence(table, mark)
        known = last_batch(table, mark)
        if known >= mark.batch_id:
            return StateSnapshot(
                path=path, batch_id=known, version=table.version(), rows=table.count(), changed=0, whole=False
            )
        changes = _few_changes(spark, state, table, known, mark.batch_id) if known >= 0 else None
        if changes is not None:
            return _merged(changes, path, mark)
    return _whole(spark, state, path, mark)


def _few_changes(spark: SparkSession, state: StateOf, table: DeltaTable, known: int, batch_id: int) -> pa.Table | None:
    """The changes since batch `known`, None if they are not available or too many."""
    most = max(int(table.count() * MOST_CHANGED), 1000)
    try:
        rows = state_changes(spark, state, first=known + 1, last=batch_id).limit(most + 1).toArrow()
    except Exception:  # noqa: BLE001  whatever Spark lacks, all rows can be written
        return None
    return rows if rows.num_rows <= most else None


def _merged(changes: pa.Table, path: str, mark: BatchMark) -> StateSnapshot:
    def merge(table: DeltaTable | None) -> None:
        if table is None:
            raise CheckpointError("the table of the state is gone", remedy="take the snapshot again", file=path)
        merger = table.merge(
            changes, predicate="t.key = s.key", source_alias="s", target_alias="t", commit_properties=properties(mark)
        )
        merger = merger.when_matched_delete(predicate=f"s.{CHANGE} = '{DELETED}'")
        merger = merger.when_matched_update({name: f"s.{name}" for name in (VALUE, PARTITION, BATCH)})
        values = {name: f"s.{name}" for name in (KEY, VALUE, PARTITION, BATCH)}
        merger.when_not_matched_insert(values, predicate=f"s.{CHANGE} <> '{DELETED}'").execute()

    try:
        commit_again(TableHandle(path), mark, merge)
    except DeltaError as error:
        raise SinkError(f"the state cannot be written: {error}", table=path) from error
    newest = DeltaTable(path)
    return StateSnapshot(
        path=path,
        batch_id=mark.batch_id,
        version=newest.version(),
        rows=newest.count(),
        changed=changes.num_rows,
        whole=False,
        changes=changes,
    )


def _whole(spark: SparkSession, state: StateOf, path: str, mark: BatchMark) -> StateSnapshot:
    frame: DataFrame = state_rows(spark, state, batch_id=mark.batch_id)
    writer = DeltaWriter(mark.sink, path, "complete")
    writer.committed(mark)
    rows = writer.stage(frame.withColumn(BATCH, F.lit(mark.batch_id).cast("bigint")), mark).commit()
    return StateSnapshot(
        path=path, batch_id=mark.batch_id, version=DeltaTable(path).version(), rows=rows, changed=rows, whole=True
    )


def state_at(path: str, batch_id: int | None = None) -> pa.Table:
    """The state at the newest snapshot up to `batch_id` (None: the newest); CheckpointError if there is none."""
    return snapshot_at(path, batch_id)[1]


def snapshot_at(path: str, batch_id: int | None = None) -> tuple[int | None, pa.Table]:
    """The same, with the batch of that snapshot; None for the newest one."""
    table = open_table(path)
    if table is None:
        raise CheckpointError(
            "no snapshot of this state was taken yet", remedy="take one: rs-assets state NAME STEP --refresh"
        )
    if batch_id is None:
        return None, rows_of(table, path)
    batches = {
        int(entry["version"]): int(entry["rs.batch_id"])
        for entry in table.history()
        if WRITER.fullmatch(str(entry.get("rs.writer", "")))
    }
    newest = max((version for version, batch in batches.items() if batch <= batch_id), default=None)
    if newest is None:
        earliest = min(batches.values(), default=0)
        raise CheckpointError(
            f"there is no snapshot up to batch {batch_id}", remedy=f"the earliest one is of batch {earliest}", file=path
        )
    table.load_as_version(newest)
    return batches[newest], rows_of(table, path)


def difference(before: pa.Table, after: pa.Table) -> pa.Table:
    """The difference between two snapshots: change (added, removed, changed), key, before, after; ordered by key."""
    joined = before.select([KEY, VALUE]).join(
        after.select([KEY, VALUE]), keys=KEY, join_type="full outer", left_suffix="_before", right_suffix="_after"
    )
    old, new = joined[f"{VALUE}_before"], joined[f"{VALUE}_after"]
    change = pc.case_when(
        pc.make_struct(pc.is_null(old), pc.is_null(new), pc.coalesce(pc.not_equal(old, new), pa.scalar(value=False))),
        "added",
        "removed",
        "changed",
    )
    table = pa.table({"change": change, KEY: joined[KEY], "before": old, "after": new})
    return table.filter(pc.is_valid(table["change"])).sort_by(KEY)
