"""How SQL reads and writes a table of Delta."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from rs_assets.connectors.delta.nodes import KEYED, KeyedMode, OnNewFields
from rs_assets.records.schema import quoted
from rs_assets.sql.systems.form import SqlSink, SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

# The columns of the change feed that a METADATA column may name.
METADATA: Final = {"change_type": "string", "commit_version": "bigint", "commit_timestamp": "timestamp"}
# Of the changes of a key in one version those that go come before those that come.
COMES: Final = "_change_comes"
# The modes that a table with a PRIMARY KEY may name.
SQL_MODES: Final = {mode: mode for mode in KEYED}
ON_NEW_FIELDS: Final = {policy: policy for policy in get_args(OnNewFields)}


def _read(table: SourceTable) -> DataStream | Table:
    """The rows that are added; with the option `changes` each change, or the table that they lead to."""
    options, changes = table.options, table.options.flag("changes")
    _check_changes(table, changes=changes)
    stream = table.begin.from_delta(
        _place(options, "orders"),
        schema=table.schema,
        changes=changes,
        starting_version=options.number("starting-version", least=0),
        bad_records=table.bad_records,
        name=table.name,
    )
    if not changes:
        return table.rows(stream, placed=False, instead="'changes' = 'true'")
    declared = [column.name.text for column in options.table.declared]
    made = {f"delta_{key}": f"_{key}" for key in table.metadata}
    named = stream.with_fields(
        **made, **{COMES: "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE 0 END"},
        name=f"{table.name}_change",
    )  # fmt: skip
    if not table.keys:
        return named.select_fields(*declared, *made, name=f"{table.name}_columns")
    rows = named.to_table(
        *table.keys, order_by=("_commit_version", COMES), deletes=f"{COMES} = 0", name=f"{table.name}_table"
    )
    return rows.map_values(*(quoted(name) for name in (*declared, *made) if name not in table.keys))


def _check_changes(table: SourceTable, *, changes: bool) -> None:
    """SqlError if no column says which rows of the change feed go, or if the feed of its metadata is not read."""
    named = next((column for column in table.options.table.columns if column.metadata is not None), None)
    if named is not None and not changes:
        raise table.options.error(
            f"only the change feed has the metadata of {named.name.text!r}", at=named.name.start,
            remedy="'changes' = 'true'",
        )  # fmt: skip
    if changes and not table.keys and "change_type" not in table.metadata:
        raise table.options.error(
            "rows of the change feed come and go, and no column says which",
            remedy="kind STRING METADATA FROM 'change_type', or PRIMARY KEY (id) NOT ENFORCED",
        )


def _place(options: Options, example: str) -> str:
    """The option `path`, or `table`: a name is one of a table of the namespace."""
    return (options.take("path") or options.need("table", example)).removeprefix("file://")


def _write(table: SinkTable) -> DataStream:
    """The rows appended, or by key those that replace earlier ones."""
    found = table.keys()
    if not found and table.replace:
        raise table.options.error(
            "the query updates one row, but the table has no key",
            remedy="declare a PRIMARY KEY, or group by a column",
        )
    where = table.options.take("path") or table.options.need("table", "totals")
    partitions = [word.text for word in table.options.table.partitioned_by]
    feed = table.options.flag("change-feed")
    added: OnNewFields = table.options.choice("added-columns", ON_NEW_FIELDS, "fail")
    mode: KeyedMode = table.options.choice("mode", SQL_MODES, "upsert") if found else "upsert"
    changes = table.changes
    if changes is not None:
        made = changes.to_delta(
            where, mode=mode, partition_by=partitions, change_feed=feed, added_columns=added, name=table.name
        )
        return replace(table.rows, step=made.step)
    return table.stream.to_delta(
        where,
        mode=mode if found else "append",
        keys=found,
        order_by=table.order_by(),
        deletes=table.deletes or (table.options.take("deletes") if found else None),
        time_field=table.options.take("time-field") if mode == "history" else None,
        partition_by=partitions,
        change_feed=feed,
        added_columns=added,
        name=table.name,
    )


SOURCE: Final = SqlSource(read=_read, metadata=METADATA)
SINK: Final = SqlSink(write=_write, keys=True, updates=True, partitions=True)
