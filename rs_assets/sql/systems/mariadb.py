"""Changes of a table of MariaDB or MySQL in SQL. The names of options are those of Flink."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.sql.systems.changes import of_database, rows_of
from rs_assets.sql.systems.form import SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable, *, connector: str) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    options = table.options
    stream = table.begin.from_mariadb(
        **of_database(table, "shop.orders"),
        server_id=options.number("server-id"),
    )
    return rows_of(table, stream, connector)


SOURCE: Final = SqlSource(read=partial(_read, connector="mariadb-cdc"), metadata=CHANGE_TYPES)
MYSQL: Final = SqlSource(read=partial(_read, connector="mysql-cdc"), metadata=CHANGE_TYPES)
