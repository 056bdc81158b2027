"""The Spark source `rs_sqlite`: rows of a table as lines of JSON, with their split and key.

Options: `path`, `table`, `fields` (a JSON object: names and types), `max_rows_per_batch`, and for batches `start` and
`end`, two offsets. Spark's Python workers import the module under this name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import wired
from rs_assets.common.plural import count_of
from rs_assets.connectors.files.lines.spark_source import SCHEMA_DDL
from rs_assets.connectors.sqlite.database import connected
from rs_assets.connectors.sqlite.table import Offset, Table
from rs_assets.errors import DataLossError, SourceReadError

FORMAT = "rs_sqlite"


def register(spark: SparkSession) -> None:
    """Register the format with the session; may be repeated."""
    spark.dataSource.register(SqliteDataSource)


class SqliteDataSource(DataSource):
    """The format `rs_sqlite`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return FORMAT

    def schema(self) -> str:
        """The schema of lines: `line` and `offset` are the key, `value` is a JSON object."""
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> SqliteStreamReader:  # noqa: ARG002  Spark's signature
        """Follows the table."""
        return SqliteStreamReader(self.options)

    def reader(self, schema: StructType) -> SqliteReader:  # noqa: ARG002  Spark's signature
        """Reads between two offsets."""
        return SqliteReader(self.options)


class RowsPartition(InputPartition):
    """The rows of one batch, for one task."""

    def __init__(self, start: dict[str, int], end: dict[str, int]) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class SqliteStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on a worker; all state is in the offsets."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Before the first row."""
        return Offset().dump()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `max_rows_per_batch`."""
        rows = self._options.get("max_rows_per_batch")
        return ReadAllAvailable() if rows is None else ReadMaxRows(int(rows))

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave rows that are added from now on to the next run."""
        with wired(), _table(self._options) as table:
            self._until = table.end()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The end of the next batch; equal to `start` if there is no new row."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with wired(), _table(self._options) as table:
            return table.plan(Offset.load(start), until=self._until, rows=rows).dump()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One partition, if there are rows."""
        return _partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows; DataLossError, in wire form, if they are not the planned ones."""
        return _read(self._options, partition)


class SqliteReader(DataSourceReader):
    """Reads a range of rows again."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def partitions(self) -> Sequence[InputPartition]:
        """One partition, if there are rows."""
        return _partitions(orjson.loads(self._options["start"]), orjson.loads(self._options["end"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, as in the stream."""
        return _read(self._options, partition)


@contextmanager
def _table(options: Mapping[str, str]) -> Iterator[Table]:
    """The table of the options, for a block."""
    with connected(options["path"], SourceReadError) as database:
        yield Table(database, options["table"])


def _partitions(start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
    return [RowsPartition(start, end)] if end["rows"] > start["rows"] else []


def _read(options: Mapping[str, str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark reads one nameless partition if a batch has none.
    if isinstance(partition, RowsPartition):
        with wired():
            yield from _rows(options, Offset.load(partition.start), Offset.load(partition.end))


def _rows(options: Mapping[str, str], start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:
    fields: dict[str, str] = orjson.loads(options["fields"])
    found = 0
    with _table(options) as table:
        for rows in table.rows(start, end, list(fields)):
            found += len(rows)
            yield _batch(options["table"], rows, fields)
    if found != end.rows - start.rows:
        raise DataLossError(
            f"a batch was planned with {count_of(end.rows - start.rows, 'row')} of the table {options['table']!r},"
            f" now its range of keys has {found}",
            remedy="put them back as they were, or begin a new generation (--new-generation); rows may only be removed"
            " after they were read, and new rows need greater keys",
            range=f"keys above {start.key} up to {end.key}",
            database=options["path"],
        )


def _batch(split: str, rows: Sequence[tuple[object, ...]], fields: Mapping[str, str]) -> pa.RecordBatch:
    keys = [row[0] for row in rows]
    values = [_line(row[1:], fields) for row in rows]
    return pa.record_batch(
        {
            "split": pa.array([split] * len(rows), pa.string()),
            "line": pa.array(keys, pa.int64()),
            "offset": pa.array(keys, pa.int64()),
            "length": pa.array(map(len, values), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def _line(values: Sequence[object], fields: Mapping[str, str]) -> bytes:
    """A row as a JSON object for Spark's parser, which refuses a value that is not of its field's type."""
    record = {name: _value(value, kind) for (name, kind), value in zip(fields.items(), values, strict=True)}
    # Invalid UTF-8 gets its original bytes back, so that the parser reports it.
    return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")


def _value(value: object, kind: str) -> object:
    if kind == "binary":
        raw = value.encode(errors="surrogateescape") if isinstance(value, str) else value
        return base64.b64encode(raw).decode() if isinstance(raw, bytes) else raw
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if kind == "boolean" and value in (0, 1):
        return bool(value)
    return value
