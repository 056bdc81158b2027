"""Syslog as a table of SQL; its columns are fields of `from_syslog`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.syslog.nodes import SyslogSource
from rs_assets.sql.systems.collected import kinds_of, of_log
from rs_assets.sql.systems.form import SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    protocol: Any = options.choice("protocol", {"tcp": "tcp", "udp": "udp"}, "tcp")
    stream = table.begin.from_syslog(
        options.number("port") or 514,
        protocol=protocol,
        host=options.take("host") or "127.0.0.1",
        time_zone=options.take("time-zone") or "UTC",
        max_bytes=options.number("max-bytes") or 1 << 16,
        **of_log(table),
    )
    return table.rows(stream)


SOURCE: Final = SqlSource(read=_read, metadata=kinds_of(SyslogSource.facts))
