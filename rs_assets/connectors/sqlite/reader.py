"""The source of a SQLite table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.common.plural import count_of
from rs_assets.connectors.files.parse import LineFormat, parse_lines
from rs_assets.connectors.source import BEGIN_ANEW, Ends, Known, Lag, Positions, Reading, Start, sealed_error
from rs_assets.connectors.sqlite.database import PATIENCE, connected
from rs_assets.connectors.sqlite.spark_source import FORMAT, register
from rs_assets.connectors.sqlite.table import Offset, Table
from rs_assets.errors import DataLossError, SchemaError, SourceReadError
from rs_assets.records.columns import REASON

# The type by a part of the declared type, the first that fits, as in SQLite itself.
KINDS: Mapping[str, DataType] = {
    "BOOL": BooleanType(),
    "INT": LongType(),
    "CHAR": StringType(),
    "CLOB": StringType(),
    "TEXT": StringType(),
    "BLOB": BinaryType(),
    "REAL": DoubleType(),
    "FLOA": DoubleType(),
    "DOUB": DoubleType(),
    "DATETIME": TimestampType(),
    "TIMESTAMP": TimestampType(),
    "DATE": DateType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteReader:
    """Exactly once, for a table that only grows: a batch is the rows between two keys."""

    name: str
    path: str
    table: str
    max_rows_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The rows in the order of their keys, existing and future ones."""
        schema = self._schema(reading)
        register(reading.spark)
        reader = reading.spark.readStream.name(reading.name).format(FORMAT).options(**self._options(schema))
        if self.max_rows_per_batch is not None:
            reader = reader.option("max_rows_per_batch", self.max_rows_per_batch)
        return _parsed(reader.load(), schema, addressed=reading.positioned)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows between the offsets of a batch; the line is the key."""
        schema = self._schema(reading)
        register(reading.spark)
        start, end = Offset.load(batch.start), Offset.load(batch.end)
        reader = reading.spark.read.format(FORMAT).options(**self._options(schema))
        return _parsed(reader.option("start", start.text).option("end", end.text).load(), schema, addressed=True)

    @property
    def positioned(self) -> bool:
        """True: a row has its table, and its key is its position."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """The table is one split; its offset is the key of the last row that was read."""
        return {self.table: str(Offset.load(batch.end).key)}

    def check(self, start: Start) -> Known:
        """Check that the table exists, has not lost the last rows that were read, and got none with passed keys."""
        with self._opened() as table:
            table.columns()
            end = table.end()
            for log in start.logs:
                read = Offset.load(log.committed)
                if read.rows and end < read.key:
                    raise DataLossError(
                        f"the table {self.table!r} was read up to the key {read.key} and ends before it",
                        remedy="put its rows back; or, if they were removed on purpose, let the key be AUTOINCREMENT"
                        f" so that keys are not reused, and {BEGIN_ANEW}",
                        source=self.name,
                        database=self.path,
                    )
                late = table.late(read)
                if late:
                    raise DataLossError(
                        f"{count_of(late, 'row')} of the table {self.table!r} came with keys below {read.key}, up to"
                        " which it was read, and would never be read",
                        remedy="give them greater keys, and let the key be AUTOINCREMENT; or remove them; or"
                        f" {BEGIN_ANEW}",
                        source=self.name,
                        database=self.path,
                    )
                if start.sealed and table.plan(read) != read:
                    raise sealed_error(self.name)
        return start.known

    def ends(self, patience: timedelta) -> Ends:
        """The greatest key."""
        with self._opened(patience) as table:
            return {self.table: table.end()}

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The number of unread rows."""
        start = Offset.load(offset)
        with self._opened(patience) as table:
            return Lag(records=table.plan(start).rows - start.rows)

    @contextmanager
    def _opened(self, patience: timedelta = PATIENCE) -> Iterator[Table]:
        with connected(self.path, SourceReadError, patience=patience) as database:
            yield Table(database, self.table)

    def _options(self, schema: StructType) -> dict[str, str]:
        fields = {field.name: field.dataType.simpleString() for field in schema.fields}
        return {"path": self.path, "table": self.table, "fields": orjson.dumps(fields).decode()}

    def _schema(self, reading: Reading) -> StructType:
        """The declared schema, or that of the table at the first start; SchemaError for a missing field."""
        with self._opened() as table:
            columns = table.columns()
        schema = reading.schema_of(lambda: StructType([StructField(c.name, _type(c.kind)) for c in columns]))
        known = {column.name.lower() for column in columns}
        missing = [field for field in schema.names if field.lower() not in known]
        if missing:
            raise SchemaError(
                f"step {self.name!r}: the table {self.table!r} has no column {missing[0]!r}",
                remedy=f"its columns are: {', '.join(column.name for column in columns)}",
                step=self.name,
            )
        return schema


def _type(declared: str) -> DataType:
    return next((kind for part, kind in KINDS.items() if part in declared.upper()), StringType())


def _parsed(lines: DataFrame, schema: StructType, *, addressed: bool = False) -> DataFrame:
    rows = parse_lines(lines, LineFormat("json", schema=schema), addressed=addressed)
    reason = F.when(F.col(REASON) == "malformed JSON", F.lit("a value is not of its field's type"))
    return rows.withColumn(REASON, F.coalesce(reason, F.col(REASON)))
