"""What the project knows of HTTP services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code
from rs_assets.connectors.http.nodes import HttpSink, HttpSource

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader


def _writer(node: HttpSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.http.writer import HttpWriter

    return HttpWriter(node)


def _reader(node: HttpSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.http.pages import HttpPages, PageForm, PagesReader

    pages = HttpPages(
        endpoint=node.endpoint,
        form=PageForm(cursor=node.cursor, items=node.items, next=node.next, last=node.last),
        step=node.name,
        first=node.first,
        rows=node.max_rows_per_batch,
        pause=1 / node.requests_per_second if node.requests_per_second else 0.0,
        every=node.every,
        keep=node.keep,
    )
    return PagesReader(name=node.name, max_rows_per_batch=None, source=pages)


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=HttpSource,
            reader=_reader,
            describe=lambda node: f"Asks {code(node.endpoint.where)} for new rows by {code(node.last or node.next)}",
            places=lambda node, _home: (node.endpoint.where,),
        ),
    ),
    sinks=(
        SinkConnector(
            node=HttpSink,
            writer=_writer,
            describe=lambda node: f"Sends rows to {code(node.endpoint.where)}, at most {node.batch:,} a request",
        ),
    ),
)
