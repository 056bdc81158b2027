"""The SQLite sink: each batch is written in one transaction with its marker."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StructField,
    StructType,
)

from rs_assets.connectors.kept_rows import KeptRows
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.connectors.sqlite import ledger
from rs_assets.connectors.sqlite.affinity import changes
from rs_assets.connectors.sqlite.database import columns_of, connected, quoted
from rs_assets.connectors.sqlite.marked import MarkedWriter
from rs_assets.errors import SinkError
from rs_assets.records.poison import EXACT
from rs_assets.records.schema import quoted as quoted_in_spark

NESTED = (ArrayType, MapType, StructType)
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SqliteWriter(MarkedWriter):
    """Exactly once: a batch and its marker are one transaction, fenced by the token.

    A batch passes through the driver, so limit its rows. Written rows cannot be removed again: the pipeline can go back
    only to a batch after which nothing was written, and begin a new generation only when the table is empty.
    """

    name: str
    path: str
    table: str
    progress: ProgressGuard = field(default_factory=ProgressGuard, compare=False, repr=False)

    def location(self) -> str:
        """The database and the table."""
        return f"{self.path}:{self.table}"

    def raise_fence(self, mark: BatchMark) -> None:
        """Write the token, without a batch."""
        with connected(self.path, SinkError, write=True) as database:
            ledger.begin(database)
            ledger.note(database, mark, batch=-1)
            database.execute("COMMIT")

    def check_begin(self, begun: BatchMark) -> str:
        """SinkError if the table has rows and earlier generations of this sink wrote some: they would come twice."""
        with self._looking() as database:
            points = ledger.points(database, begun)
            earlier = any(point.generation < begun.generation and point.batch >= 0 for point in points)
            if earlier and columns_of(database, self.table) and _has_rows(database, self.table):
                raise self._rows.refuse_begin()
        return ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if rows were written after `kept`: the rows of single batches cannot be distinguished."""
        with self._looking() as database:
            begun.check(ledger.last_writer(database, begun), where=self.location())
            self._rows.check_return(ledger.newest(database, kept), kept, had)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Only records the later generation: nothing was written since."""
        with connected(self.path, SinkError, write=True) as database:
            ledger.begin(database)
            begun.check(ledger.last_writer(database, begun), where=self.location())
            self._rows.check_return(ledger.newest(database, kept), kept, had)
            ledger.note(database, begun, batch=begun.batch_id)
            database.execute(
                "INSERT OR REPLACE INTO _rs_returns (pipeline_id, sink, begun, generation, batch)"
                " VALUES (?, ?, ?, ?, ?)",
                [begun.pipeline_id, begun.sink, begun.generation, kept.generation, kept.batch_id],
            )
            database.execute("COMMIT")
        return "had nothing to undo"

    @property
    def _rows(self) -> KeptRows:
        return KeptRows.of_sql(self.name, self.table, quoted(self.table), {"database": self.path})

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the rows and hold them in memory; SinkError for a table that lacks one of their fields."""
        fields = batch.schema.fields
        with self._looking() as database:
            self._check_fields(database, fields)
        columns = batch.select(*map(_encoded, fields)).toArrow().to_pydict().values()
        rows = [tuple(map(_value, row)) for row in zip(*columns, strict=True)]
        return Staged(lambda: self._commit(fields, rows, mark))

    def _commit(self, fields: Sequence[StructField], rows: Sequence[Row], mark: BatchMark) -> int:
        with connected(self.path, SinkError, write=True) as database:
            ledger.begin(database)
            # The transaction excludes other writers: what is read here is valid until its end.
            mark.check(ledger.last_writer(database, mark), where=self.location())
            if self._hold(mark, ledger.last_batch(database, mark)) >= mark.batch_id:
                database.execute("ROLLBACK")
                return 0
            names = ", ".join(quoted(f.name) for f in fields)
            kinds = ", ".join(f"{quoted(f.name)} {_declared(f.dataType)}" for f in fields)
            places = ", ".join("?" * len(fields))
            database.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({kinds})")
            database.executemany(f"INSERT INTO {quoted(self.table)} ({names}) VALUES ({places})", rows)  # noqa: S608
            ledger.note(database, mark, batch=mark.batch_id)
            database.execute("COMMIT")
        self._hold(mark, mark.batch_id)
        return len(rows)

    def _check_fields(self, database: sqlite3.Connection, fields: Sequence[StructField]) -> None:
        known = {column.name.lower(): column.kind for column in columns_of(database, self.table)}
        missing = [f for f in fields if known and f.name.lower() not in known]
        if missing:
            raise SinkError(
                f"the table {self.table!r} has no column {missing[0].name!r}",
                remedy=f"ALTER TABLE {quoted(self.table)} ADD COLUMN {quoted(missing[0].name)}"
                f" {_declared(missing[0].dataType)}, or write to another table",
                step=self.name,
                database=self.path,
            )
        for each in fields:
            kind = known.get(each.name.lower(), "")
            if changes(each.dataType, kind):
                raise SinkError(
                    f"the column {each.name!r} of the table {self.table!r} is {kind}, which changes some values of the"
                    f" type {each.dataType.simpleString()}",
                    remedy="cast the field to the type of the column: with_fields, or write to another table",
                    step=self.name,
                    database=self.path,
                )


def _has_rows(database: sqlite3.Connection, table: str) -> bool:
    return database.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchone() is not None  # noqa: S608


def _encoded(column: StructField) -> Column:
    """A value that SQLite has no type for becomes JSON."""
    value = F.col(quoted_in_spark(column.name))
    return F.to_json(value, dict(EXACT)).alias(column.name) if isinstance(column.dataType, NESTED) else value


def _declared(kind: DataType) -> str:
    """The type of a new column; the values have types of their own."""
    if isinstance(kind, IntegralType | BooleanType):
        return "BOOLEAN" if isinstance(kind, BooleanType) else "INTEGER"
    if isinstance(kind, BinaryType):
        return "BLOB"
    floating = isinstance(kind, FractionalType) and not kind.simpleString().startswith("decimal")
    named = {"timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP", "date": "DATE"}
    return "REAL" if floating else named.get(kind.simpleString(), "TEXT")


def _value(value: object) -> object:
    """Times as ISO 8601, exact numbers as text."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
