"""What SQL has to know of a system to read and to write its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


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
