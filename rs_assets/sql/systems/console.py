"""Standard output as a table of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.sql.systems.form import SqlSink

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.stream.data_stream import DataStream


def _write(table: SinkTable) -> DataStream:
    return table.stream.to_print(max_rows=table.options.number("max-rows") or 20, name=table.name)


SINK: Final = SqlSink(write=_write, keys=True, updates=True, partitions=True)
