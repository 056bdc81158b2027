"""Changes of a table of Postgres in SQL. The names of options are those of Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.sql.systems.changes import of_database, rows_of
from rs_assets.sql.systems.form import SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    options = table.options
    stream = table.begin.from_postgres(
        **of_database(table, "public.orders"),
        slot=options.take("slot.name"),
        publication=options.take("publication.name"),
    )
    return rows_of(table, stream, "postgres-cdc")


SOURCE: Final = SqlSource(read=_read, metadata=CHANGE_TYPES)
