"""What the project knows of Postgres as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SourceConnector, code
from rs_assets.connectors.postgres.nodes import PostgresSource

if TYPE_CHECKING:
    from rs_assets.connectors.source import SourceReader


def _reader(node: PostgresSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.database.place import Place
    from rs_assets.connectors.postgres.reader import ChangesReader
    from rs_assets.connectors.postgres.server import Server
    from rs_assets.connectors.postgres.slot import Slot

    return ChangesReader(
        name=node.name,
        max_rows_per_batch=node.max_rows_per_batch,
        server=Server(Place(node.url, node.name)),
        table=node.table,
        slot=Slot(node.slot, node.publication, node.name),
        declared=node.schema is not None,
        snapshot=node.snapshot,
        keep=node.keep,
        on_truncate=node.truncate,
        on_added=node.added_columns,
    )


CONNECTOR = Connector(
    name="postgres-cdc",
    sources=(
        SourceConnector(
            node=PostgresSource,
            reader=_reader,
            describe=lambda node: f"Reads the table {code(node.where)}, then each of its changes",
        ),
    ),
)
