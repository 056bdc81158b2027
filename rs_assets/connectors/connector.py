"""What a connector declares of itself: its nodes, and what the other packages have to know of them.

A connector is a folder with a module `connector.py`, whose `CONNECTOR` has a line in
`rs_assets/connectors/registry.py`. The module is loaded when a pipeline is written, so it imports readers, writers and
everything that loads Spark within its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
    from rs_assets.sql.connectors.sinks import SinkTable
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

SourceT = TypeVar("SourceT", bound=Source)
SinkT = TypeVar("SinkT", bound=Sink)


def declared_fields(node: Source) -> Fields:
    """The fields of the rows of a source, by its schema."""
    return declared(node.row_schema, step=node.name)


def nowhere(node: Source, home: Home) -> tuple[str, ...]:  # noqa: ARG001  the connector's form
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
class SqlSource:
    """How SQL reads a table.

    - `read(table)` calls the method of the fluent API with the options of the table. Its result is
      `table.rows(stream)`, a table if there is a PRIMARY KEY, unless the connector refuses one.
    - `metadata` are the keys that a METADATA column may name, with their types. The rows of `read` have those that the
      table names, as fields `<connector>_<key>`.
    - `as_maps`: the SQL of nested metadata for a column that is declared as MAP<STRING, BYTES>.
    """

    read: Callable[[SourceTable], DataStream | Table]
    metadata: Mapping[str, str] = field(default_factory=dict)
    as_maps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSink:
    """How SQL writes a table; what is not set is refused.

    - `write(table)` calls the method of the fluent API with the options of the table and the rows of the query.
    - `keys`: the table may have a PRIMARY KEY.
    - `updates`: rows may replace earlier rows, and retract them.
    - `partitions`: the table may be PARTITIONED BY columns.
    - `metadata` are the keys of METADATA columns that can be written; others are left out of the table's rows.
    """

    write: Callable[[SinkTable], DataStream]
    keys: bool = False
    updates: bool = False
    partitions: bool = False
    metadata: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A system that pipelines read or write: its kinds of sources and of sinks, and how SQL names them.

    `name` is the 'connector' of a table. `sql` is the module whose SQL_SOURCE and SQL_SINK say how SQL reads and writes
    it; it is loaded where there is SQL.
    """

    name: str
    sources: tuple[SourceConnector[Any], ...] = ()
    sinks: tuple[SinkConnector[Any], ...] = ()
    sql: str | None = None


def code(name: object) -> str:
    """A name in Markdown."""
    return f"`{name}`"


def listed(names: Iterable[object]) -> str:
    """Names in Markdown, separated by commas."""
    return ", ".join(map(code, names))
