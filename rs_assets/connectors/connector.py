"""What a connector declares of itself: its nodes, and what the other packages have to know of them.

A connector is a folder with a module `connector.py`, whose `CONNECTOR` has a line in
`rs_assets/connectors/registry.py`. The module is loaded when a pipeline is written, so it imports readers, writers and
everything that loads Spark within its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rs_assets.common.home import Home
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.records.fields import Fields, declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.collector.collecting import Collector
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

SourceT = TypeVar("SourceT", bound=Source)
SinkT = TypeVar("SinkT", bound=Sink)


def declared_fields(node: Source) -> Fields:
    """The fields of the rows of a source, by its schema."""
    return declared(node.row_schema, step=node.name)


def nowhere(_node: Source, _home: Home) -> tuple[str, ...]:
    """The places of a source whose rows no other job can read."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConnector(Generic[SourceT]):
    """A kind of source.

    - `reader(node, home)` makes the reader of a node.
    - `describe(node)` is a sentence of Markdown without its full stop, which Dagster shows.
    - `fields(node)` are the fields of its rows, as far as they are known when a pipeline is written.
    - `shortened(node, rows, folder)` is a source of its first rows, for previews; it may write files into the folder.
      None if rows cannot be read outside of a run: the sources of queues and of other processes.
    - `places(node, home)` are the paths and URIs of what it reads, without credentials: events of lineage have them.
    - `collector(node)` receives what its system sends only once; None for systems that are asked.
    """

    node: type[SourceT]
    reader: Callable[[SourceT, Home], SourceReader]
    describe: Callable[[SourceT], str]
    fields: Callable[[SourceT], Fields] = declared_fields
    shortened: Callable[[SourceT, int, Path], Source | None] | None = None
    places: Callable[[SourceT, Home], tuple[str, ...]] = nowhere
    collector: Callable[[SourceT], Collector] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConnector(Generic[SinkT]):
    """A kind of sink.

    - `writer(node, home, namespace)` makes the writer of a node of a pipeline in `namespace`.
    - `describe(node)` is a sentence of Markdown without its full stop, which Dagster shows.
    - `check(node, fields)` raises a TopologyError for fields that the node certainly cannot write, when a pipeline is
      written.
    - `check_rows(node, rows)` does the same for the frame to write, at the start of a query.
    """

    node: type[SinkT]
    writer: Callable[[SinkT, Home, str], SinkWriter]
    describe: Callable[[SinkT], str]
    check: Callable[[SinkT, Fields], None] | None = None
    check_rows: Callable[[SinkT, DataFrame], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A system that pipelines read or write: its kinds of sources and of sinks.

    `rs_assets/sql/systems/` says how SQL reads and writes its tables.
    """

    sources: tuple[SourceConnector[Any], ...] = ()
    sinks: tuple[SinkConnector[Any], ...] = ()


def code(name: object) -> str:
    """A name in Markdown."""
    return f"`{name}`"


def listed(names: Iterable[object]) -> str:
    """Names in Markdown, separated by commas."""
    return ", ".join(map(code, names))
