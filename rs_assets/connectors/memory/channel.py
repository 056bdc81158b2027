"""An in-process channel of records: a source that a program feeds, or a sink that it reads.

As a source its rows are spooled to Parquet files in a temporary folder. Spark reads them with its own reader, and finds
them again after a restart from a checkpoint. The folder lives as long as the channel.
"""

from __future__ import annotations

import copy
import shutil
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.common.scratch import new_folder
from rs_assets.errors import SchemaError, UserError
from rs_assets.records.schema import Schema, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

Record = dict[str, Any]
# The only split of a channel.
MEMORY_SPLIT = "memory-source"


class MemoryChannel:
    """Records on their way into or out of a pipeline of this process; thread-safe.

    `schema` is the DDL of the records, a StructType or a class of records; a channel that feeds a pipeline needs it.
    `close()` makes the source bounded.

    >>> channel = MemoryChannel(schema="page string, ms bigint")
    >>> channel.put({"page": "/", "ms": 12})
    >>> channel.close()
    >>> channel.put({"page": "/", "ms": 13})
    Traceback (most recent call last):
    rs_assets.errors.UserError: the channel is closed
    """

    def __init__(self, *, schema: Schema | None = None) -> None:
        self.schema = schema_text(schema, step="memory")
        self._lock = threading.Lock()
        self._closed = False
        # Each as a table if its schema is known before Spark has read it, else as a copy of the rows.
        self._waiting: list[pa.Table | list[Mapping[str, Any]]] = []
        self._arrow: pa.Schema | None = None
        self._spool: Path | None = None
        self._rows_spooled = 0
        self._collected: list[Record] = []
        self._seen: dict[str, int] = {}

    @property
    def closed(self) -> bool:
        """Whether the channel accepts no more rows."""
        return self._closed

    def put(self, *rows: Mapping[str, Any]) -> None:
        """Add `rows` as one unit: a batch gets all of them or none.

        SchemaError if one does not fit: then none is added. Later changes to a row object have no effect here.
        """
        with self._lock:
            if self._closed:
                raise UserError("the channel is closed")
            if not rows:
                return
            if self._arrow is None:
                self._waiting.append(self._checked(rows))
            else:
                self._write(_table(rows, self._arrow))

    def close(self) -> None:
        """Accept no more rows: the next `run()` ends the source."""
        self._closed = True

    def rows(self) -> list[Record]:
        """A copy of all rows that a pipeline has written into this channel so far."""
        with self._lock:
            return list(self._collected)

    def take(self) -> list[Record]:
        """The rows written since the last `take()`."""
        with self._lock:
            taken, self._collected = self._collected, []
            return taken

    # Called by the runtime.

    def bind(self, schema: pa.Schema) -> Path:
        """Fix the Arrow schema, write out the rows that waited for it, and return the spool's folder."""
        with self._lock:
            if self._spool is None:
                self._spool = new_folder("rs-channel-")
                # Removed with the channel, or at the latest with the process.
                weakref.finalize(self, shutil.rmtree, self._spool, ignore_errors=True)
            if self._arrow is None:
                if self._waiting:
                    # All rows from before the first run go into one file: a batch gets all of them.
                    self._write(_united(self._waiting, schema))
                self._arrow, self._waiting = schema, []
            return self._spool

    def add_files(self, files: Sequence[Path]) -> int:
        """Move Parquet files of rows of the bound schema into the spool, in that order; returns the number of rows."""
        import pyarrow.parquet as pq

        from rs_assets.connectors.memory.spool import spool_file

        with self._lock:
            assert self._spool is not None  # set by bind()
            begun = self._rows_spooled
            for file in files:
                if rows := pq.read_metadata(file).num_rows:
                    shutil.move(file, spool_file(self._spool, first_row=self._rows_spooled))
                    self._rows_spooled += rows
            return self._rows_spooled - begun

    def has_more(self, read: Collection[Path]) -> bool:
        """Whether it holds rows that are not in the spool files `read`."""
        with self._lock:
            files = self._spool.glob("rows-*.parquet") if self._spool is not None else ()
            return bool(self._waiting) or any(file not in read for file in files)

    def deliver(self, rows: list[Record], *, writer: str, batch_id: int) -> bool:
        """Append the rows of one batch unless that writer has delivered it already; False in that case."""
        with self._lock:
            if self._seen.get(writer, -1) >= batch_id:
                return False
            self._seen[writer] = batch_id
            self._collected.extend(rows)
            return True

    def delivered(self, writer: str) -> int:
        """The last batch that `writer` delivered, -1 for none."""
        return self._seen.get(writer, -1)

    def _checked(self, rows: tuple[Mapping[str, Any], ...]) -> pa.Table | list[Mapping[str, Any]]:
        from rs_assets.records.ddl import arrow_schema

        schema = arrow_schema(self.schema) if self.schema else None
        return _table(rows, schema) if schema is not None else copy.deepcopy(list(rows))

    def _write(self, table: pa.Table) -> None:
        from rs_assets.connectors.memory.spool import write_spool_file

        assert self._spool is not None  # set by bind()
        write_spool_file(self._spool, table, first_row=self._rows_spooled)
        self._rows_spooled += table.num_rows


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    from rs_assets.records.rows import to_table

    return to_table(rows, schema)


def _united(waiting: Sequence[pa.Table | list[Mapping[str, Any]]], schema: pa.Schema) -> pa.Table:
    """All waiting rows as one table of `schema`."""
    import pyarrow as pa

    return pa.concat_tables(
        _table(part, schema)
        if isinstance(part, list)
        else part
        if part.schema.equals(schema)
        else _table(part.to_pylist(), schema)
        for part in waiting
    )


def checked_channel(value: object, *, step: str) -> MemoryChannel:
    """`value` if it is a channel with a schema; else SchemaError."""
    made = checked_kind(value, step=step)
    if made.schema:
        return made
    raise SchemaError(
        f"step {step!r} reads from a channel without a schema", remedy="MemoryChannel(schema='page string')", step=step
    )


def checked_kind(value: object, *, step: str) -> MemoryChannel:
    """`value` if it is a channel; else SchemaError."""
    if isinstance(value, MemoryChannel):
        return value
    raise SchemaError(
        f"the channel of step {step!r} must be a MemoryChannel, not {type(value).__name__}",
        remedy="pass MemoryChannel(schema='page string'); for existing rows use .from_array([{...}])",
        step=step,
    )
