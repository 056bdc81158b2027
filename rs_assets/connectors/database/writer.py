"""The sink of a database: each batch is one transaction with its marker in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType
from sqlalchemy import Connection, Table, bindparam, delete
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from rs_assets.connectors.database import mysql, postgresql, sqlite
from rs_assets.connectors.database.ledger import Ledger
from rs_assets.connectors.database.place import Place, deadlocked, split_table
from rs_assets.connectors.database.rows import statements
from rs_assets.connectors.database.session import DIALECTS
from rs_assets.connectors.database.target import Target
from rs_assets.connectors.database.types import NESTED, check_type, dialect_of
from rs_assets.connectors.kept_rows import KeptRows
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, LastWriter, Staged
from rs_assets.errors import SinkError
from rs_assets.records.columns import hidden
from rs_assets.records.newest import kept as not_deleted
from rs_assets.records.newest import winners
from rs_assets.records.poison import EXACT
from rs_assets.records.schema import quoted

Mode = Literal["append", "upsert"]
# A transaction that the database ends for another one, which waited for the same rows, is tried so often.
ATTEMPTS = 8
persistent = retry(
    retry=retry_if_exception(deadlocked),
    stop=stop_after_attempt(ATTEMPTS),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    reraise=True,
)


@dataclass(frozen=True, slots=True)
class DatabaseWriter:
    """Exactly once: rows and marker of a batch are one transaction, fenced by the token.

    A batch passes through the driver, so limit its rows. `upsert` replaces the row of the same `keys`: of the rows of a
    batch with equal keys the last one is taken, and if its field `deletes` is true, the row is deleted; that field has
    no column. Written rows cannot be removed again: the pipeline can go back only to a batch after which nothing was
    written.
    """

    name: str
    place: Place
    table: str
    where: str
    mode: Mode = "append"
    keys: tuple[str, ...] = ()
    deletes: str | None = None
    progress: ProgressGuard = field(default_factory=ProgressGuard, compare=False, repr=False)
    # The schemas for which the table was made and checked in this process.
    checked: list[StructType] = field(default_factory=list, compare=False, repr=False)

    def location(self) -> str:
        """The database and the table, without credentials."""
        return self.where

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is in the table; LeaseLostError if another driver has written since."""
        with self._looking() as (ledger, connection):
            if connection is None:
                return self._hold(mark, -1) >= mark.batch_id
            mark.check(ledger.last_writer(connection, mark), where=self.where)
            return self._hold(mark, ledger.last_batch(connection, mark)) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The batch of the marker, -1 for none."""
        with self._looking() as (ledger, connection):
            return self._hold(mark, -1 if connection is None else ledger.last_batch(connection, mark))

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the ledger."""
        with self._looking() as (ledger, connection):
            return LastWriter() if connection is None else ledger.last_writer(connection, mark)

    @persistent
    def raise_fence(self, mark: BatchMark) -> None:
        """Write the token, without a batch."""
        with self._writing(mark) as (ledger, connection):
            ledger.note(connection, mark, -1)

    def check_begin(self, begun: BatchMark) -> str:
        """SinkError if rows of earlier generations would be added again; a warning if they would be replaced."""
        with self._looking() as (ledger, connection):
            points = [] if connection is None else ledger.points(connection, begun)
            earlier = any(point.generation < begun.generation and point.batch >= 0 for point in points)
            if not earlier or connection is None or not self._target(StructType()).has_rows(connection):
                return ""
        if self.mode == "upsert":
            return (
                f"the table {self.table!r} keeps rows of the earlier generation until rows of their keys replace them"
            )
        raise self._rows.refuse_begin()

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if rows were written after `kept`: the rows of single batches cannot be distinguished."""
        with self._looking() as (ledger, connection):
            if connection is not None:
                begun.check(ledger.last_writer(connection, begun), where=self.where)
            self._rows.check_return([] if connection is None else ledger.newest(connection, kept), kept, had)

    @persistent
    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Only records the later generation: nothing was written since."""
        with self._writing(begun) as (ledger, connection):
            self._rows.check_return(ledger.newest(connection, kept), kept, had)
            ledger.note(connection, begun, begun.batch_id)
            ledger.note_return(connection, kept, begun)
        return "had nothing to undo"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the rows and hold them in memory; SinkError for a table, or a value, that does not fit."""
        inner = hidden(batch.columns)
        fields = [field for field in batch.schema.fields if field.name not in inner]
        for each in fields:
            check_type(each.name, each.dataType, step=self.name)
        rows = batch.select(*map(_encoded, fields), *inner).toArrow()
        return self.staged(rows, StructType(fields), mark)

    def staged(self, rows: pa.Table, fields: StructType, mark: BatchMark) -> Staged:
        """Stage rows that are computed already."""
        self._prepare(fields)
        if self.mode == "upsert":
            rows = winners(rows, keys=self.keys, order_by=(), deletes=self.deletes)
            self._check_keys(rows)
        return Staged(lambda: self._transact(rows, fields, mark))

    @persistent
    def _transact(self, rows: pa.Table, fields: StructType, mark: BatchMark) -> int:
        with self._writing(mark) as (ledger, connection):
            if self._hold(mark, ledger.last_batch(connection, mark)) >= mark.batch_id:
                return 0
            self._write(connection, rows, self._written(fields))
            ledger.note(connection, mark, mark.batch_id)
        self._hold(mark, mark.batch_id)
        return int(rows.num_rows)

    def _write(self, connection: Connection, rows: pa.Table, fields: StructType) -> None:
        target = self._target(fields)
        table = target.table(dialect_of(connection))
        if connection.dialect.name == "postgresql" and connection.dialect.driver == "psycopg":
            postgresql.load(connection, rows, target, table, self.deletes)
        elif connection.dialect.name in DIALECTS:
            mysql.load(connection, rows, target, table, self.deletes)
        else:
            _executed(connection, rows, target, table, self.deletes)

    def _written(self, fields: StructType) -> StructType:
        return StructType([each for each in fields.fields if each.name != self.deletes])

    def _target(self, fields: StructType) -> Target:
        schema, name = split_table(self.table)
        return Target(self.name, schema, name, fields, self.keys)

    def _prepare(self, fields: StructType) -> None:
        """Make ledger and table, and check the table, once in a process and schema."""
        if fields not in self.checked:
            with self.place.reading(SinkError) as connection:
                self._ledger().make(connection)
                target = self._target(self._written(fields))
                target.make(connection)
                mysql.check_engine(connection, target)
                sqlite.check_columns(connection, target)
                postgresql.check_columns(connection, target)
            self.checked.append(fields)

    def _check_keys(self, rows: pa.Table) -> None:
        empty = next((key for key in self.keys if rows[key].null_count), None)
        if empty is not None:
            raise SinkError(
                f"step {self.name!r}: the key {empty!r} of a row is null, and a database finds no row by null",
                remedy=f"filter such rows before the sink: .filter('{empty} IS NOT NULL')",
                step=self.name,
            )

    @property
    def _rows(self) -> KeptRows:
        return KeptRows.of_sql(self.name, self.table, self.table, {"place": self.where})

    def _ledger(self) -> Ledger:
        return Ledger(split_table(self.table)[0])

    @contextmanager
    def _looking(self) -> Iterator[tuple[Ledger, Connection | None]]:
        """The ledger and a connection; None if no sink has made a ledger there yet."""
        ledger = self._ledger()
        with self.place.reading(SinkError) as connection:
            yield ledger, connection if ledger.exists(connection) else None

    @contextmanager
    def _writing(self, mark: BatchMark) -> Iterator[tuple[Ledger, Connection]]:
        """A transaction that no other start of the pipeline can overlap; LeaseLostError if another driver has won."""
        ledger = self._ledger()
        with self.place.reading(SinkError) as connection:
            ledger.make(connection)
        with self.place.writing(SinkError) as connection:
            ledger.hold(connection, mark)
            mark.check(ledger.last_writer(connection, mark), where=self.where)
            yield ledger, connection

    def _hold(self, mark: BatchMark, batch: int) -> int:
        return self.progress.advance(mark, batch, step=self.name, place=self.where)


def _encoded(column: StructField) -> Column:
    """A value without a type of databases becomes JSON."""
    value = F.col(quoted(column.name))
    return F.to_json(value, dict(EXACT)).alias(column.name) if isinstance(column.dataType, NESTED) else value


def _executed(connection: Connection, rows: pa.Table, target: Target, table: Table, deletes: str | None) -> None:
    """Statements with the values of some rows each."""
    dialect = connection.dialect.name
    folding = sqlite.folding(connection, target) if dialect == "sqlite" and target.keys else []
    if deletes is not None:
        gone = rows.filter(pc.fill_null(rows[deletes], fill_value=False)).select([*target.keys])
        given = {key: bindparam(f"rs_{key}", type_=table.c[key].type) for key in target.keys}
        keys = [table.c[key] == value for key, value in given.items()]
        keys += [sqlite.same_bytes(table.c[key], given[key]) for key in folding]
        _in_parts(connection, delete(table).where(*keys), gone.rename_columns([f"rs_{key}" for key in target.keys]))
    statement = target.upsert(table, dialect) if target.keys else target.append(table)
    kept = not_deleted(rows, deletes).select(table.columns.keys())
    for key in folding:
        sqlite.check_keys(connection, kept, target, table, column=key)
    _in_parts(connection, statement, kept)
    for key in folding:
        # Two rows of this batch may have become one.
        sqlite.check_keys(connection, kept, target, table, column=key)


def _in_parts(connection: Connection, statement: Any, rows: pa.Table) -> None:
    for part in statements(rows, connection.dialect.name):
        connection.execute(statement, part)
