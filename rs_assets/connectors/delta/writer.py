"""The Delta sink.

`native`: Spark's tasks write Parquet into a staging folder inside the table's folder, then one delta-rs transaction
adds the files and stores the batch marker. A crash in between leaves files that no version names; the next start
removes them. In an object store tasks write files under their final names (stored_files.py). `jvm`: the Delta connector
inside Spark, with the same marker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql import DataFrame

from rs_assets.common.storage import is_remote, storage_options
from rs_assets.connectors.delta.files.data_files import BatchFiles, stage_files
from rs_assets.connectors.delta.files.staging import clear_staging, staging_of
from rs_assets.connectors.delta.files.stored_files import store_files
from rs_assets.connectors.delta.fitting import absent_columns, fitted, widened
from rs_assets.connectors.delta.joining import alone, only_next
from rs_assets.connectors.delta.jvm_commit import merge_jvm, write_jvm
from rs_assets.connectors.delta.log.commit_info import last_writer_of
from rs_assets.connectors.delta.log.sole_writer import ALONE
from rs_assets.connectors.delta.merge import Upsert, create, stays
from rs_assets.connectors.delta.nodes import FEED, KEYED, VALIDITY, DeltaMode
from rs_assets.connectors.delta.rewind import (
    accept,
    act,
    changes_by_others,
    is_rewound,
    lacking,
    plan_rewind,
    refuse_changes,
)
from rs_assets.connectors.delta.table import (
    TableHandle,
    arrow_schema,
    check_fence,
    commit_again,
    commit_fence,
    commit_no_rows,
    last_batch,
    newest_for,
    properties,
    sink_errors,
)
from rs_assets.connectors.delta.table_rules import Demand, check_fields, check_files, check_rules, nullable, signature
from rs_assets.connectors.delta.validity import Validity
from rs_assets.connectors.sink import BatchMark, LastWriter, SinkChange, Staged
from rs_assets.errors import SinkError
from rs_assets.records.columns import RETRACTED, visible
from rs_assets.records.fields import Types
from rs_assets.records.newest import winners_of

# Metadata of the first commit of a table: no earlier version has rows of others.
NEW = {ALONE: "-1"}


class _By(TypedDict):
    """By which of the rows of one key the winner is chosen."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    deletes: str | None


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Writes batches to the table at `path`; see the module for `connector`.

    A commit is based on the version at which the marker was read: delta-rs refuses it if the same writer or a newer
    token committed in between, so two drivers can never both write a batch. Of the rows of one batch with equal `keys`
    the last by `order_by` is kept, else the last that was read; it is a deletion if its field `deletes` is true.
    `partition_by` defines the partitions of a new table, `change_feed` whether it has a change feed. With `adds`
    a table gets the columns that it lacks, and rows those that they lack.
    """

    name: str
    path: str
    mode: DeltaMode = "append"
    keys: tuple[str, ...] = ()
    connector: Literal["native", "jvm"] = "native"
    order_by: tuple[str, ...] = ()
    deletes: str | None = None
    partition_by: tuple[str, ...] = ()
    change_feed: bool = False
    time_field: str | None = None
    adds: bool = False
    handle: TableHandle = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Make the handle of the table."""
        object.__setattr__(self, "handle", TableHandle(self.path, self.name))

    def location(self) -> str:
        """The table's path."""
        return self.path

    def committed(self, mark: BatchMark) -> bool:
        """Whether the table has the marker of this batch, or of a later one, of this writer.

        LeaseLostError if it has a newer fencing token: another driver has taken over. SinkError if it has fewer batches
        than this process has seen in it, or if others removed our rows from it.
        """
        handle = self.handle
        handle.look()
        last = handle.last(mark)
        if handle.table is not None and -1 < handle.own < handle.version != handle.looked:
            refuse_changes(handle.table, mark, own=handle.own, path=self.path)
        handle.looked = handle.version
        return last >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The marker in the table, -1 for none."""
        table = self.handle.newest()
        known = -1 if table is None else last_batch(table, mark)
        return self.handle.progress.advance(mark, known, step=self.name, place=self.path)

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the table."""
        table = self.handle.newest()
        return LastWriter() if table is None else last_writer_of(table, mark)

    def close(self) -> None:
        """Remove the staging folder of this sink, if nothing is staged: an op has one for each of its runs."""
        if self.handle.staged is not None:
            with suppress(OSError):
                self.handle.staged.rmdir()
            self.handle.staged = None

    def raise_fence(self, mark: BatchMark) -> None:
        """Commit the token alone."""
        table = self.handle.newest()
        if table is not None:
            with sink_errors(self.name, self.path, mark):
                commit_fence(table, mark)

    def check_fields(self, fields: Types) -> None:
        """SinkError if the table has other columns; the JVM connector checks that by itself."""
        table = self.handle.newest() if self.connector == "native" else None
        if table is None:
            return
        added = (*self.partition_by, *self._validity)
        kinds = {**dict.fromkeys(added), **{name: fields[name] for name in visible([*fields])}}
        if self.adds:
            kinds = {column.name: kinds.get(column.name) for column in table.schema().fields}
        check_fields(table, kinds, step=self.name, partition_by=self.partition_by, adds=self.adds)

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if no version of the table has exactly the rows of `kept`."""
        self._planned(self._newest(kept, begun, had), kept, begun, had)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Rewind the table to the version with exactly the rows of `kept`, in one transaction with the marker."""
        with alone(self.path):
            table = self._newest(kept, begun, had)
            if table is None:
                return "there is no table"
            if is_rewound(table, begun):
                return "is already rewound"
            version = self._planned(table, kept, begun, had)
            with sink_errors(self.name, self.path, begun):
                return act(table, version, kept, begun)

    def changes_by_others(self, mark: BatchMark) -> Sequence[SinkChange]:
        """Changes by others to the rows since our last commit."""
        table = self.handle.newest()
        return () if table is None else changes_by_others(table, mark, self.path)

    def accept_changes(self, mark: BatchMark) -> None:
        """Accept the table as it is."""
        table = self.handle.newest()
        if table is not None:
            with sink_errors(self.name, self.path, mark):
                accept(table, mark)

    def _newest(self, kept: BatchMark, begun: BatchMark, had: int) -> DeltaTable | None:
        table = self.handle.newest()
        if table is None and had >= 0:
            raise lacking(kept, known=-1, had=had, path=self.path)
        if table is not None:
            check_fence(table, begun)
        return table

    def _planned(self, table: DeltaTable | None, kept: BatchMark, begun: BatchMark, had: int) -> int | None:
        return None if table is None else plan_rewind(table, kept, begun, had=had, path=self.path)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the files, or collect the rows of an upsert; SinkError if the table's rules forbid the rows."""
        batch, keyed = self._fitted(batch, mark), self._keyed
        schema = arrow_schema(batch) if keyed is None else keyed.schema(arrow_schema(batch))
        table = self.handle.table
        if table is not None:
            self._check(table, schema, mark)
        if self.connector == "jvm":
            frame = winners_of(batch, **self._by) if self.mode == "upsert" else batch
            frame = frame.persist()
            rows = frame.count()
            return Staged(lambda: self._commit_jvm(frame, rows, mark))
        if keyed is not None:
            net = keyed.net(batch.toArrow())
            return Staged(lambda: self._merge(keyed, net, schema, mark))
        files = self._staged_files(batch, mark)
        if table is not None:
            check_files(table, self._demand(schema), files)
        return Staged(lambda: self._add(files, schema, mark))

    def _fitted(self, batch: DataFrame, mark: BatchMark) -> DataFrame:
        """The batch with the columns of the table, which gets those of the batch, if added columns are taken."""
        table = self.handle.table
        if table is None or not self.adds:
            return batch
        with sink_errors(self.name, self.path, mark):
            rows, now = fitted(batch, table, self.path, mark, own=self._validity)
        if now is not table:
            self.handle.newest()
        return rows

    @property
    def _validity(self) -> tuple[str, ...]:
        """The columns that a history adds to its rows."""
        return VALIDITY if self.mode == "history" else ()

    @property
    def _by(self) -> _By:
        """By which of the rows of one key the winner is chosen."""
        return {"keys": self.keys, "order_by": self.order_by, "deletes": self.deletes}

    @property
    def _keyed(self) -> Upsert | Validity | None:
        """How rows of the same keys are merged; None in modes without keys."""
        if self.mode == "history":
            return Validity(step=self.name, time=self.time_field, **self._by)
        return Upsert(**self._by) if self.mode in KEYED else None

    def _staged_files(self, batch: DataFrame, mark: BatchMark) -> BatchFiles:
        if is_remote(self.path):
            return store_files(batch, self.path, mark, partition_by=self._partitions(self.handle.table))
        root = Path(self.path)
        if self.handle.staged is None:
            clear_staging(root, mark)
            self.handle.staged = staging_of(root, mark)
        return stage_files(batch, root, mark, partition_by=self._partitions(self.handle.table), step=self.name)

    def _add(self, files: BatchFiles, schema: pa.Schema, mark: BatchMark) -> int:
        if not files.rows and not self._replaces(mark):
            files.discard()
            return 0
        try:
            actions = files.placed(step=self.name)
        except SinkError:
            # A driver that has taken over deletes our staged files; if the table is deleted, so are they.
            self.handle.newest()
            self.handle.last(mark)
            raise
        if not self._appended(actions, schema, mark):
            self._commit(mark, schema, partial(self._add_to, files=files, actions=actions, schema=schema, mark=mark))
        return files.rows

    def _appended(self, actions: list[AddAction], schema: pa.Schema, mark: BatchMark) -> bool:
        """Whether the files were added without reading the log."""
        table = self.handle.table
        if table is None or not self.handle.known or self._check(table, schema, mark):
            return False
        done = self.handle.append(actions, mark, partition_by=self._partitions(table))
        if done:
            self.handle.progress.advance(mark, mark.batch_id, step=self.name, place=self.path)
        return done

    def _add_to(
        self,
        table: DeltaTable | None,
        *,
        files: BatchFiles,
        actions: list[AddAction],
        schema: pa.Schema,
        mark: BatchMark,
    ) -> None:
        """Commit the files on top of the version of `table`; None: create the table from them."""
        if table is None:
            made = DeltaSchema.from_arrow(nullable(schema))
            create_table_with_add_actions(
                self.path,
                made,
                actions,
                mode="error",
                partition_by=list(self.partition_by),
                configuration=self._configuration,
                commit_properties=properties(mark, **NEW),
                storage_options=storage_options(self.path),
            )
            return
        mode: Literal["append", "overwrite"] = "overwrite" if self._check(table, schema, mark) else "append"
        check_files(table, self._demand(schema), files)
        added: list[AddAction | RemoveAction] = [*actions]
        marker = properties(mark, **self._noted_authors(table, mark))
        table.create_write_transaction(
            added,
            mode=mode,
            schema=table.schema(),
            partition_by=list(self._partitions(table)),
            commit_properties=only_next(marker) if mode == "overwrite" else marker,
        )

    def _merge(self, keyed: Upsert | Validity, net: pa.Table, schema: pa.Schema, mark: BatchMark) -> int:
        if net.num_rows or self._begins_anew(mark):
            self._commit(mark, schema, partial(self._merge_into, keyed=keyed, net=net, schema=schema, mark=mark))
        return int(net.num_rows)

    def _merge_into(
        self, table: DeltaTable | None, *, keyed: Upsert | Validity, net: pa.Table, schema: pa.Schema, mark: BatchMark
    ) -> None:
        if table is None:
            marker = properties(mark, **NEW)
            create(
                self.path,
                keyed.begun(net),
                partition_by=self.partition_by,
                marker=marker,
                replaces=False,
                configuration=self._configuration,
            )
            return
        replaces = self._check(table, schema, mark)
        if self.adds:
            for column in absent_columns(schema, table):
                net = net.append_column(column, pa.nulls(len(net), column.type))
        marker = properties(mark, **self._noted_authors(table, mark))
        if replaces:
            rows = keyed.begun(net)
            create(table, rows, partition_by=self._partitions(table), marker=only_next(marker), replaces=True)
        else:
            before = table.version()
            keyed.merge(table, self.path, net, marker)
            if table.version() == before:
                # A merge that changes no row commits nothing, and the batch would not have its marker.
                commit_no_rows(table, marker)

    def _commit(self, mark: BatchMark, schema: pa.Schema, commit: Callable[[DeltaTable | None], None]) -> None:
        """Commit, also on top of other writers' commits, and record that the batch is in the table.

        `schema` is that of the rows: a table that another writer has made since they were staged gets its columns.
        """

        def noted(table: DeltaTable | None) -> None:
            with alone(self.path) if self._replaces(mark) else nullcontext():
                table = self._unchanged(table, mark)
                if table is not None and self._widened(table, schema, mark) is not table:
                    table = self._unchanged(newest_for(self.handle, mark), mark)
                # A merge moves `table` on to its own version.
                on = -1 if table is None else table.version()
                commit(table)
            self.handle.committed(on)

        with sink_errors(self.name, self.path, mark):
            commit_again(self.handle, mark, noted)
        self.handle.progress.advance(mark, mark.batch_id, step=self.name, place=self.path)

    def _widened(self, table: DeltaTable, schema: pa.Schema, mark: BatchMark) -> DeltaTable:
        """The table with all columns of the rows, if added columns are taken; the same object if it has them."""
        if not self.adds:
            return table
        own = pa.schema([column for column in schema if column.name not in self._validity])
        return widened(own, table, self.path, mark)

    def _unchanged(self, table: DeltaTable | None, mark: BatchMark) -> DeltaTable | None:
        """The table as loaded, or its newest version if others have committed; SinkError if they removed our rows.

        Later checks do not look at versions before this commit.
        """
        handle = self.handle
        if table is not None and not handle.known:
            table = newest_for(handle, mark)
        if table is not None and handle.version != handle.looked:
            refuse_changes(table, mark, own=handle.own, path=self.path)
            handle.looked = handle.version
        return table

    def _noted_authors(self, table: DeltaTable, mark: BatchMark) -> dict[str, str]:
        """Commit metadata about the authors of the table's rows."""
        self.handle.sole_writer.others(table, mark, deep=False)
        return self.handle.sole_writer.facts(table.version())

    def _partitions(self, table: DeltaTable | None) -> tuple[str, ...]:
        return self.partition_by if table is None else tuple(table.metadata().partition_columns)

    def _demand(self, schema: pa.Schema, *, replaces: bool = False) -> Demand:
        return Demand(
            step=self.name,
            schema=DeltaSchema.from_arrow(schema),
            partition_by=self.partition_by,
            only_adds=self.mode == "append" and not replaces,
            by_delta=self.mode in KEYED,
            change_feed=self.change_feed,
            adds=self.adds,
        )

    @property
    def _configuration(self) -> dict[str, str | None]:
        """The properties of a new table."""
        return {FEED: "true"} if self.change_feed else {}

    def _check(self, table: DeltaTable, schema: pa.Schema, mark: BatchMark) -> bool:
        """Whether the rows replace the whole table; SinkError if the table's rules or other writers' rows forbid it.

        The JVM connector checks the rules by itself.
        """
        if self.adds:
            # Another writer may have added columns since the rows were staged.
            schema = pa.schema([*schema, *absent_columns(schema, table)])
        replaces = self._replaces(mark)
        if replaces and not self.handle.at_hand:
            table = self.handle.newest() or table
            self.handle.last(mark)
        others = self.handle.sole_writer.others(table, mark, deep=True) if replaces else ""
        if others:
            what = "a new generation" if self._begins_anew(mark) else "complete"
            raise SinkError(
                f"{what} would replace the whole table, but {others}",
                remedy="write to a table of its own, or move this one away and start again",
                step=self.name,
                table=self.path,
            )
        seen = (signature(table), schema, replaces)
        if self.connector == "native" and self.handle.checked != seen:
            check_rules(table, self._demand(schema, replaces=replaces))
            self.handle.checked = seen
        return replaces

    def _replaces(self, mark: BatchMark) -> bool:
        """Whether the rows of the batch, none as well, are to be all rows of the table."""
        return self.mode == "complete" or self._begins_anew(mark)

    def _begins_anew(self, mark: BatchMark) -> bool:
        """Whether this is the first batch of a later generation: it replaces the rows of earlier generations."""
        earlier = (self.handle.marker(mark.of_generation(g)) for g in range(1, mark.generation))
        return self.handle.progress.last(mark) < 0 and any(batch >= 0 for batch in earlier)

    def _commit_jvm(self, frame: DataFrame, rows: int, mark: BatchMark) -> int:
        try:
            if rows or self._replaces(mark):
                self._write_jvm(frame, mark)
                self.handle.progress.advance(mark, mark.batch_id, step=self.name, place=self.path)
        finally:
            frame.unpersist()
        return rows

    def _write_jvm(self, frame: DataFrame, mark: BatchMark) -> None:
        table = self.handle.newest()
        frame = self._fitted(frame, mark)
        schema = arrow_schema(frame)
        replaces = self.mode == "complete" if table is None else self._check(table, schema, mark)
        if self.mode == "upsert" and table is not None and not replaces:
            merge_jvm(frame, self.path, mark, keys=self.keys, order_by=self.order_by, deletes=self.deletes)
        else:
            if self.deletes is not None:
                frame = frame.filter(stays("", self.deletes)).drop(RETRACTED)
            made = self._configuration if table is None else {}
            write_jvm(
                frame, self.path, mark, replaces=replaces, partition_by=self._partitions(table), configuration=made
            )
        self.handle.committed(-1 if table is None else table.version())
