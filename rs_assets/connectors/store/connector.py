"""`CONNECTOR` for stores: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, code, listed
from rs_assets.connectors.messages import check_flag, no_key
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter


def _writer(node: StoreSink, home: Home, namespace: str) -> SinkWriter:
    from rs_assets.connectors.store.writer import StoreWriter

    path = home.store(namespace, node.store)
    return StoreWriter(name=node.name, store=node.store, path=path, keys=node.keys, deletes=node.flag)


def _check(node: StoreSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)
    check_flag(node.deletes, fields, step=node.name)
    for name in node.keys:
        kind = fields.type_of(name)
        if kind is not None and kind.nested:
            raise no_key(f"the key {name!r} is {kind.text}", why="which has no order", step=node.name)


def _check_rows(node: StoreSink, rows: DataFrame) -> None:
    from rs_assets.records.columns import check_fields

    check_fields(rows, node.named, step=node.name)


CONNECTOR = Connector(
    sinks=(
        SinkConnector(
            node=StoreSink,
            writer=_writer,
            describe=lambda node: f"Serves the current row of each {listed(node.keys)} as the store {code(node.store)}",
            check=_check,
            check_rows=_check_rows,
        ),
    ),
)
