"""Rows of the program, and memory channels, as tables of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.connectors.memory.channel import MemoryChannel
from rs_assets.sql.systems.form import SqlSink, SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    if table.bound is None:
        name = table.options.table.name.text
        raise table.options.error(
            f"the table {name!r} has no rows", remedy=f"pipeline_from_sql(..., tables={{{name!r}: rows}})"
        )
    if isinstance(table.bound, MemoryChannel):
        return table.rows(table.begin.from_memory(table.bound, name=table.name))
    return table.rows(table.begin.from_array(table.bound, schema=table.schema, name=table.name))


def _write(table: SinkTable) -> DataStream:
    name, bound = table.options.table.name.text, table.bound
    if not isinstance(bound, MemoryChannel):
        raise table.options.error(
            f"the table {name!r} has no channel",
            remedy=f"pipeline_from_sql(..., tables={{{name!r}: MemoryChannel(...)}})",
        )
    return table.stream.to_memory(bound, name=table.name)


SOURCE: Final = SqlSource(read=_read)
SINK: Final = SqlSink(write=_write, keys=True, updates=True, partitions=True)
