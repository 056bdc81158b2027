"""`CONNECTOR` for databases by URL: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code, listed
from rs_assets.connectors.database.nodes import DatabaseSink, DatabaseSource
from rs_assets.connectors.messages import check_flag, no_key
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _writer(node: DatabaseSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.database.writer import DatabaseWriter

    return DatabaseWriter(
        name=node.name,
        place=Place(node.url, node.name),
        table=node.table,
        where=node.where,
        mode=node.mode,
        keys=node.keys,
        deletes=node.deletes,
    )


def _check(node: DatabaseSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)
    check_flag(node.deletes, fields, step=node.name)
    for name in node.keys:
        kind = fields.type_of(name)
        if kind is not None and kind.nested:
            raise no_key(f"the key {name!r} is {kind.text}", step=node.name)


def _check_rows(node: DatabaseSink, rows: DataFrame) -> None:
    from rs_assets.connectors.database.types import check_type
    from rs_assets.records.columns import check_fields, visible

    check_fields(rows, node.named, step=node.name)
    for name in visible(rows.columns):
        check_type(name, rows.schema[name].dataType, step=node.name)


def _writes(node: DatabaseSink) -> str:
    gone = f"; a row whose {code(node.deletes)} is true deletes it" if node.deletes else ""
    if node.mode == "upsert":
        return f"Keeps one row for each {listed(node.keys)} in the table {code(node.where)}{gone}"
    return f"Adds rows to the table {code(node.where)}"


def _reader(node: DatabaseSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.database.polled import polled

    return polled(
        Place(node.url, node.name),
        node.name,
        table=node.table,
        column=node.column,
        lag=node.lag,
        every=node.every,
        keep=node.keep,
        rows=node.max_rows_per_batch,
    )


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=DatabaseSource,
            reader=_reader,
            describe=lambda node: f"Asks the table {code(node.where)} for new rows by {code(node.column)}",
            places=lambda node, _home: (node.where,),
        ),
    ),
    sinks=(SinkConnector(node=DatabaseSink, writer=_writer, describe=_writes, check=_check, check_rows=_check_rows),),
)
