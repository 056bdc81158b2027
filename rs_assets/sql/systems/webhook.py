"""Webhooks as tables of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.connectors.webhook.nodes import WebhookSource
from rs_assets.sql.systems.collected import kinds_of, of_messages
from rs_assets.sql.systems.form import SqlSource
from rs_assets.sql.systems.secrets import taken_secret

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    stream = table.begin.from_webhook(
        options.need("path", "/orders"),
        options.number("port") or 8080,
        token=taken_secret(options, "token"),
        host=options.take("host") or "127.0.0.1",
        max_bytes=options.number("max-bytes") or 1 << 20,
        **of_messages(table),
    )
    return table.rows(stream)


SOURCE: Final = SqlSource(read=_read, metadata=kinds_of(WebhookSource.facts))
