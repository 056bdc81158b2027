"""Tables of SQLite in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.sql.systems.form import SqlSink, SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    path, name = table.options.need("path", "shop.db"), table.options.need("table", "orders")
    return table.rows(table.begin.from_sqlite(path, name, schema=table.schema, name=table.name))


def _write(table: SinkTable) -> DataStream:
    path, name = table.options.need("path", "shop.db"), table.options.need("table", "totals")
    return table.stream.to_sqlite(path, name, name=table.name)


SOURCE: Final = SqlSource(read=_read)
SINK: Final = SqlSink(write=_write)
