"""The Delta sink.

`native`: Spark's tasks write Parquet into a folder of the batch inside the table, then one delta-rs transaction adds
the files and remembers the batch. A crash in between leaves files that no version names; vacuum removes them.
`jvm`: the Delta connector inside Spark, with the same marker.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql import DataFrame

from resources.errors import SinkError
from resources.sink.base import BatchMark, Staged
from resources.sink.delta_jvm import merge_jvm, write_jvm
from resources.sink.delta_table import (
    WRITER,
    WRITES,
    TableHandle,
    arrow_schema,
    check_fence,
    last_batch,
    properties,
    sink_errors,
)
from resources.sink.statistics import file_statistics

Mode = Literal["append", "upsert", "complete"]


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Writes batches to the table at `path`; see the module for `connector`.

    A commit stands on the version at which the marker was read: delta-rs refuses it if the same writer or a newer
    token committed in between, so two drivers can never both write a batch.
    """

    name: str
    path: str
    mode: Mode = "append"
    keys: tuple[str, ...] = ()
    connector: Literal["native", "jvm"] = "native"
    handle: TableHandle = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Make the handle of the table."""
        object.__setattr__(self, "handle", TableHandle(self.path))

    def location(self) -> str:
        """The table's path."""
        return self.path

    def committed(self, mark: BatchMark) -> bool:
        """Whether the table remembers this batch, or a later one, of this writer.

        LeaseLostError if it remembers a newer fencing token: another driver has taken over.
        """
        table = self.handle.newest()
        if table is None:
            return False
        check_fence(table, mark)
        return last_batch(table, mark) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The marker in the table, -1 for none."""
        table = self.handle.newest()
        return -1 if table is None else last_batch(table, mark)

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:
        """Bring back the rows from before the first batch behind `kept`, in one transaction with the markers."""
        table = self.handle.newest()
        if table is None:
            return "there is no table"
        check_fence(table, begun)
        if last_batch(table, begun) == begun.batch_id:
            return "is rewound already"
        markers = CommitProperties(
            app_transactions=[
                Transaction(kept.writer, min(kept.batch_id, last_batch(table, kept))),
                Transaction(begun.writer, begun.batch_id),
                Transaction(begun.fence, begun.token),
            ],
            custom_metadata={"rs.rewound_by": begun.writer, "rs.rewound_to": str(begun.batch_id)},
        )
        undone = self._undone(table, kept)
        with sink_errors(self.name, self.path, begun):
            if not undone:
                table.create_write_transaction(
                    [], mode="append", schema=table.schema(), partition_by=[], commit_properties=markers
                )
                return "had nothing to undo"
            if not any(_place(entry, kept) for entry in table.history() if entry["version"] < undone[0]):
                table.delete(commit_properties=markers)
                return "emptied: it had no batch before"
            table.restore(undone[0] - 1, commit_properties=markers)
        return f"restored to version {undone[0] - 1}"

    def _undone(self, table: DeltaTable, kept: BatchMark) -> list[int]:
        """The versions that batches behind `kept` made, in order; SinkError if others wrote rows since the first."""
        history = sorted(table.history(), key=lambda entry: entry["version"])
        point = (kept.generation, kept.batch_id)
        ours = [entry["version"] for entry in history if (_place(entry, kept) or point) > point]
        for entry in history:
            stranger = entry.get("operation") in WRITES and "rs.rewound_by" not in entry and not _place(entry, kept)
            if ours and entry["version"] > ours[0] and stranger:
                raise SinkError(
                    f"somebody else wrote version {entry['version']} of the table after batch {kept.batch_id}",
                    remedy="restore the table by hand, or give each pipeline a table of its own",
                    step=self.name,
                    table=self.path,
                )
        return ours

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the files, or collect the rows of an upsert."""
        if self.connector == "jvm":
            frame = batch.persist()
            rows = frame.count()
            return Staged(lambda: self._commit_jvm(frame, rows, mark))
        if self.mode == "upsert":
            table = _last_of_each(batch.toArrow(), self.keys)
            return Staged(lambda: self._merge(table, mark))
        folder = f"{mark.folder}-{uuid.uuid4().hex[:8]}"
        batch.write.parquet(str(Path(self.path) / folder))
        return Staged(lambda: self._add(folder, batch, mark))

    def _add(self, folder: str, batch: DataFrame, mark: BatchMark) -> int:
        files = [_add_action(Path(self.path), f) for f in sorted((Path(self.path) / folder).glob("*.parquet"))]
        rows = sum(count for count, _ in files)
        actions = [action for count, action in files if count]
        replaces = self.mode == "complete"
        if not actions and not replaces:
            _remove(Path(self.path) / folder)
            return 0
        schema = DeltaSchema.from_arrow(_nullable(arrow_schema(batch)))
        with sink_errors(self.name, self.path, mark):
            table = self.handle.table
            replaces = replaces or (table is not None and self._begins_anew(table, mark))
            mode: Literal["append", "overwrite"] = "overwrite" if replaces else "append"
            if table is None:
                create_table_with_add_actions(
                    self.path, schema, actions, mode=mode, partition_by=[], commit_properties=properties(mark)
                )
            else:
                self._check_schema(table, schema)
                added: list[AddAction | RemoveAction] = [*actions]
                table.create_write_transaction(
                    added, mode=mode, schema=schema, partition_by=[], commit_properties=properties(mark)
                )
        return rows

    def _begins_anew(self, table: DeltaTable, mark: BatchMark) -> bool:
        """Whether this is the first commit of a later generation: it replaces the rows of the generations before.

        A table that others write to as well is refused, for their rows would go too.
        """
        earlier = (table.transaction_version(mark.of_generation(g).writer) for g in range(1, mark.generation))
        if last_batch(table, mark) >= 0 or all(version is None for version in earlier):
            return False
        writers = {
            entry.get("rs.writer", "somebody else") for entry in table.history() if entry.get("operation") in WRITES
        }
        strangers = sorted(w for w in writers if not w.startswith(f"{mark.pipeline_id}/"))
        if strangers:
            raise SinkError(
                "a new generation would replace the whole table, but others have written to it",
                remedy="give each pipeline a table of its own, or remove this generation's rows by hand",
                step=self.name,
                table=self.path,
            )
        return True

    def _check_schema(self, table: DeltaTable, schema: DeltaSchema) -> None:
        """Refuse rows of other columns than the table has: nothing is widened or dropped silently."""
        have = {f.name: str(f.type) for f in table.schema().fields}
        want = {f.name: str(f.type) for f in schema.fields}
        if have != want:
            different = sorted(k for k in have.keys() | want.keys() if have.get(k) != want.get(k))
            raise SinkError(
                f"the table has other columns than the rows: {', '.join(different)}",
                remedy="write to another table, or change the table first",
                step=self.name,
                table=self.path,
            )

    def _merge(self, rows: pa.Table, mark: BatchMark) -> int:
        if not rows.num_rows:
            return 0
        with sink_errors(self.name, self.path, mark):
            table = self.handle.table
            if table is None or self._begins_anew(table, mark):
                write_deltalake(self.path, rows, mode="overwrite", commit_properties=properties(mark))
                return int(rows.num_rows)
            self._check_schema(table, DeltaSchema.from_arrow(rows.schema))
            (
                table.merge(
                    rows,
                    predicate=" AND ".join(f"(t.`{k}` IS NOT DISTINCT FROM s.`{k}`)" for k in self.keys),
                    source_alias="s",
                    target_alias="t",
                    commit_properties=properties(mark),
                )
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            )
        return int(rows.num_rows)

    def _commit_jvm(self, frame: DataFrame, rows: int, mark: BatchMark) -> int:
        try:
            if rows or self.mode == "complete":
                self._write_jvm(frame, mark)
        finally:
            frame.unpersist()
        return rows

    def _write_jvm(self, frame: DataFrame, mark: BatchMark) -> None:
        table = self.handle.newest()
        anew = table is not None and self._begins_anew(table, mark)
        if self.mode == "upsert" and table is not None and not anew:
            merge_jvm(frame, self.path, mark, keys=self.keys)
        else:
            write_jvm(frame, self.path, mark, replaces=self.mode == "complete" or anew)


def _place(entry: Mapping[str, Any], mark: BatchMark) -> tuple[int, int] | None:
    """Generation and batch of an entry of a table's history, None if it is not of this pipeline's sink."""
    match = WRITER.fullmatch(str(entry.get("rs.writer", "")))
    if match is None or (match[1], match[3]) != (mark.pipeline_id, mark.sink):
        return None
    return int(match[2]), int(entry["rs.batch_id"])


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type, nullable=True) for f in schema])


def _add_action(root: Path, file: Path) -> tuple[int, AddAction]:
    """The rows of a Parquet file and the action that adds it."""
    metadata = pq.read_metadata(file)
    facts = file.stat()
    action = AddAction(
        path=str(file.relative_to(root)),
        size=facts.st_size,
        partition_values={},
        modification_time=int(facts.st_mtime * 1000),
        data_change=True,
        stats=file_statistics(metadata),
    )
    return metadata.num_rows, action


def _last_of_each(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row a key: the last in the order of the batch, so that a merge never meets a key twice."""
    places = rows.select(list(keys)).append_column("_rs_place", pa.array(range(rows.num_rows), pa.int64()))
    last = places.group_by(list(keys), use_threads=False).aggregate([("_rs_place", "max")])
    return rows.take(last["_rs_place_max"].sort())


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
