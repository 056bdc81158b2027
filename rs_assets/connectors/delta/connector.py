"""`CONNECTOR` for Delta tables: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rs_assets.common.home import Home
from rs_assets.common.storage import is_remote
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code, listed
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.nodes import FEED_COLUMNS, VALIDITY, DeltaSink, DeltaSource
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.connectors.location import REMOTE
from rs_assets.connectors.messages import (
    check_flag,
    feed_taken,
    history_taken,
    no_key,
    no_record_time,
    partition_taken,
)
from rs_assets.errors import TopologyError
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

# What a sink does, by mode; `keys` are those of the node.
MODES: Final = {
    "append": "Appends rows to the Delta table {table}",
    "upsert": "Keeps one row for each {keys} in the Delta table {table}",
    "history": "Keeps each version of the rows by {keys} in the Delta table {table}",
    "complete": "Holds the current rows of all windows in the Delta table {table}",
}


def _reader(node: DeltaSource, home: Home) -> SourceReader:
    from rs_assets.connectors.delta.reader import DeltaReader

    path = home.table(node.namespace, node.table)
    return DeltaReader(name=node.name, path=path, changes=node.changes, starting=node.starting)


def _writer(node: DeltaSink, home: Home, namespace: str) -> SinkWriter:
    from rs_assets.connectors.delta.writer import DeltaWriter

    # A run may choose the connector of all its sinks.
    path = home.table(namespace, node.table)
    _refuse_spark(node, path)
    return DeltaWriter(
        name=node.name,
        path=path,
        mode=node.mode,
        keys=node.keys,
        connector=node.connector,
        order_by=node.order_by,
        deletes=node.flag,
        partition_by=node.partitioned_by,
        change_feed=node.change_feed,
        time_field=node.time_field,
        adds=node.adds,
    )


def _shortened(node: DeltaSource, rows: int, folder: Path) -> FileSource | None:
    """The first rows of the table as it is now, as a Parquet file."""
    import pyarrow.parquet as pq

    from rs_assets.connectors.delta.rows import dataset_of
    from rs_assets.connectors.delta.table import open_table

    if node.changes:
        return None
    path = Home.default().table(node.namespace, node.table)
    table = open_table(path)
    if table is None:
        raise TopologyError(
            f"step {node.name!r}: there is no table at {path}, so its rows cannot be previewed",
            remedy="give rows: .preview([{...}]); or name the home that has the table (RS_HOME)",
            step=node.name,
        )
    place = folder / f"rows of {node.name}"
    pq.write_table(dataset_of(table, path).head(rows), place)
    return FileSource(name=node.name, path=str(place), format="parquet", schema=node.schema, policy=node.policy)


def _refuse_spark(node: DeltaSink, path: str) -> None:
    """TopologyError for Spark's own connector and an object store: a second writer there would not be noticed."""
    if is_remote(path) and node.connector == "jvm":
        raise TopologyError(
            f"step {node.name!r}: the connector inside Spark does not exclude a second writer in {path}",
            remedy="leave connector= out",
            step=node.name,
        )


def _check(node: DeltaSink, fields: Fields) -> None:
    _refuse_spark(node, node.table)
    if REMOTE.match(node.table) and not is_remote(node.table) and (node.connector, node.mode) == ("native", "append"):
        raise TopologyError(
            f"step {node.name!r}: the native connector moves files into the table, which {node.table} does not support",
            remedy="use a path of a local or mounted file system, or an address in an object store (s3://bucket/table)",
            step=node.name,
        )
    fields.check(node.named, step=node.name)
    check_flag(node.deletes, fields, step=node.name)
    since = fields.type_of(node.time_field) if node.time_field is not None else None
    if since is not None and since.name not in ("timestamp", "timestamp_ntz"):
        raise no_record_time(str(node.time_field), since.text, step=node.name)
    if node.partitions is not None:
        _check_partitions(node.partitions, fields, step=node.name)
    taken = [name for name in fields.types if name.lower() in VALIDITY] if node.mode == "history" else []
    if taken:
        raise history_taken(taken[0], step=node.name)
    fed = [name for name in fields.types if name.lower() in FEED_COLUMNS] if node.change_feed else []
    if fed:
        raise feed_taken(fed[0], step=node.name)
    for name in (*node.keys, *node.order_by):
        kind = fields.type_of(name)
        if kind is not None and kind.nested:
            what = f"the key {name!r} is" if name in node.keys else f"{name!r} of order_by is"
            raise no_key(f"{what} {kind.text}", step=node.name)


def _check_partitions(partitions: EventTimePartitions, fields: Fields, *, step: str) -> None:
    kind = fields.type_of(partitions.field)
    if kind is not None and kind.name not in ("timestamp", "timestamp_ntz"):
        raise no_record_time(partitions.field, kind.text, step=step)
    if any(name.casefold() == partitions.column for name in fields.types):
        raise partition_taken(partitions.column, step=step)


def _check_rows(node: DeltaSink, rows: DataFrame) -> None:
    from rs_assets.connectors.delta.columns import check_columns

    check_columns(rows, node)


def _writes(node: DeltaSink) -> str:
    table = code(node.table)
    text = MODES[node.mode].format(table=table, keys=listed(node.keys))
    if node.late:
        text = f"Appends late rows to the Delta table {table}"
    gone = f"; a row whose {code(node.deletes)} is true deletes it" if node.deletes else ""
    return f"{text}{gone}{', partitioned by ' + listed(node.partitioned_by) if node.partitioned_by else ''}"


def _reads(node: DeltaSource) -> str:
    return f"Reads {'all changes of' if node.changes else 'rows added to'} the Delta table {code(node.table)}"


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=DeltaSource,
            reader=_reader,
            describe=_reads,
            shortened=_shortened,
            places=lambda node, home: (home.table(node.namespace, node.table),),
        ),
    ),
    sinks=(SinkConnector(node=DeltaSink, writer=_writer, describe=_writes, check=_check, check_rows=_check_rows),),
)
