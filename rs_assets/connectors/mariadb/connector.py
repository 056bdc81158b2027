"""What the project knows of MariaDB as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code
from rs_assets.connectors.mariadb.nodes import MariadbSource

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader


def _reader(node: MariadbSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.changes.reader import settings_of
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.mariadb.reader import BinlogReader
    from rs_assets.connectors.mariadb.server import Server

    server = Server(Place(node.url, node.name), node.server_id)
    return BinlogReader(server=server, **settings_of(node))


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=MariadbSource,
            reader=_reader,
            describe=lambda node: f"Reads the table {code(node.where)}, then each of its changes",
            places=lambda node, _home: (node.where,),
        ),
    ),
)
