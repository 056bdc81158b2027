"""`CONNECTOR` for Postgres as a source: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code
from rs_assets.connectors.postgres.nodes import PostgresSource

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader


def _reader(node: PostgresSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.changes.reader import settings_of
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.postgres.reader import ChangesReader
    from rs_assets.connectors.postgres.server import Server
    from rs_assets.connectors.postgres.slot import Slot

    slot = Slot(node.slot, node.publication, node.name)
    return ChangesReader(server=Server(Place(node.url, node.name)), slot=slot, **settings_of(node))


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=PostgresSource,
            reader=_reader,
            describe=lambda node: f"Reads the table {code(node.where)}, then each of its changes",
            places=lambda node, _home: (node.where,),
        ),
    ),
)
