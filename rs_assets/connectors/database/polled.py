"""A table that is asked for new rows: which rows are new by a column, and when no more of them can appear."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any, ClassVar, Final
from uuid import UUID

import orjson
from pyspark.sql.types import StructType
from sqlalchemy import Column, Connection, MetaData, Table, and_, cast, func, literal_column, select, text, type_coerce
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import NoSuchTableError, SAWarning
from sqlalchemy.sql.elements import ColumnElement

from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.secrets import Hidden
from rs_assets.connectors.database.place import Place, split_table
from rs_assets.connectors.database.written import can_write, written
from rs_assets.connectors.own.lines import OwnRow, line_of, plain
from rs_assets.connectors.own.polling import PollingSource, PollReader
from rs_assets.connectors.source import BEGIN_ANEW, Known, Reading, Start, sealed_error
from rs_assets.connectors.sqlite.database import columns_of
from rs_assets.connectors.sqlite.table import Table as SqliteTable
from rs_assets.errors import ConfigurationError, DataLossError, SchemaError, SourceReadError
from rs_assets.records.schema import quoted
from rs_assets.records.types import MOST_DIGITS

# Databases whose clock is asked, so that a lag can be kept.
CLOCKS: Final = ("postgresql", "mysql", "mariadb")
XID: Final = "xid8"
HOUR: Final = timedelta(hours=1)
# Whether the clock of a database, by which it writes times without a zone, is set forward and back.
_DAY: Final = "concat(year(utc_date()), '-{0}-01')"
_ZONE_AT: Final = f"timestampdiff(second, {_DAY}, convert_tz({_DAY}, '+00:00', @@global.time_zone))"
_OFFSET_AT: Final = "extract(timezone FROM make_timestamptz(extract(year FROM now())::int, {0}, 1, 12, 0, 0))"
SHIFTS: Final[Mapping[str, str]] = MappingProxyType(
    {"postgresql": f"SELECT {_OFFSET_AT.format(1)} <> {_OFFSET_AT.format(7)}"}
    | dict.fromkeys(("mysql", "mariadb"), f"SELECT {_ZONE_AT.format('01')} <> {_ZONE_AT.format('07')}")
)
# Types of Postgres whose values are texts here as the driver gives them; of others the server makes the text.
KEPT: Final = (sql.String, sql.Numeric, sql.ARRAY)
# Types whose values come as JSON has them, and types without floating-point numbers.
AS_THEY_ARE: Final = (sql.String, sql.Integer, sql.Boolean, sql.LargeBinary)
UNREAL: Final = (*AS_THEY_ARE, sql.DateTime, sql.Date)
# The type of a field by that of its column, the first that fits; others are text.
FIELDS: Final[tuple[tuple[type[sql.TypeEngine[Any]], str], ...]] = (
    (sql.Boolean, "boolean"),
    (sql.SmallInteger, "smallint"),
    (sql.Integer, "bigint"),
    (mysql.YEAR, "int"),
    (mysql.FLOAT, "float"),
    (sql.Float, "double"),
    (sql.Date, "date"),
    (sql.LargeBinary, "binary"),
)


@dataclass(slots=True, kw_only=True)
class TablePoll(PollingSource):
    """New rows of a table by its column `column`; see `from_database` for what is exact."""

    place: Place
    table: str
    column: str
    lag: timedelta | None
    rows: int
    every: timedelta
    keep: int
    # Any query that asks with the same cursor gets the rows that were committed until then.
    shared: bool = True
    polls_ahead: ClassVar[bool] = True

    def poll(self, cursor: Any) -> tuple[Iterable[OwnRow], Any]:
        """The rows after `cursor`, as far as no other can appear among them."""
        with self.place.reading(SourceReadError) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            table = self.reflected(connection)
            span = self._span(connection, table, cursor)
            if span is None:
                self._check_reused(connection, cursor)
                return (), cursor
            condition, after = span
            if can_write(connection):
                rows = select(*table.columns).where(condition).order_by(table.c[self.column])
                return written(connection, rows, [*table.columns]), after
            chosen = select(*(_exact(column, connection.dialect.name) for column in table.columns))
            found = connection.execute(chosen.where(condition).order_by(table.c[self.column]))
            loose = connection.dialect.name == "sqlite"
            return [*lines_of(found, table.columns, loose=loose)], after

    def reflected(self, connection: Connection) -> Table:
        """The table; SourceReadError if there is none, ConfigurationError if the column does not show what is new."""
        schema, name = split_table(self.table)
        try:
            with warnings.catch_warnings():
                # Columns of types that SQLAlchemy does not know are texts.
                warnings.simplefilter("ignore", SAWarning)
                table = Table(name, MetaData(), autoload_with=connection, schema=schema)
        except NoSuchTableError:
            raise SourceReadError(
                f"there is no table {self.table!r}",
                remedy="correct its name, or write the schema before it: 'shop.orders'",
                step=self.place.step,
            ) from None
        if self.column not in table.c:
            raise SchemaError(
                f"the table {self.table!r} has no column {self.column!r}",
                remedy=f"its columns are: {', '.join(column.name for column in table.columns)}",
                step=self.place.step,
            )
        self._check(connection, table)
        return table

    def check_placed(self, connection: Connection, table: Table) -> None:
        """SourceReadError if a row has no value in the column: no poll would ever find it."""
        column = table.c[self.column]
        if column.nullable and connection.execute(select(column.is_(None)).where(column.is_(None)).limit(1)).first():
            raise SourceReadError(
                f"rows of {self.table!r} have no value in the column {self.column!r}, and would never be read",
                remedy="give them one, and declare the column NOT NULL; or remove them",
                step=self.place.step,
            )

    def _check(self, connection: Connection, table: Table) -> None:
        dialect, kind = connection.dialect.name, table.c[self.column].type
        exact = self._is_xid(connection) or (dialect == "sqlite" and isinstance(kind, sql.Integer))
        timed = dialect in CLOCKS and isinstance(kind, sql.DateTime) and self.lag is not None
        if not exact and not timed:
            add = f"ALTER TABLE {self.table} ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id()"
            own = f"{add}, and column='xid'; or " if dialect == "postgresql" else ""
            raise ConfigurationError(
                f"rows of {self.table!r} can appear late by the column {self.column!r}: a transaction that began"
                " earlier may commit after the rows that follow were read",
                remedy=f"{own}a column of times, with lag=timedelta(minutes=5): longer than any transaction lasts",
                step=self.place.step,
            )
        if timed and not _zoned(kind) and self.lag is not None and self.lag < HOUR:
            self._check_clock(connection)

    def _check_clock(self, connection: Connection) -> None:
        """ConfigurationError if times without a zone repeat once a year: the lag must last until they are over."""
        if connection.execute(text(SHIFTS[connection.dialect.name])).scalar():
            raise ConfigurationError(
                f"times of {self.column!r} have no zone and come twice when the clocks of the database are set back:"
                " rows of that hour would be passed over",
                remedy="a lag that is an hour longer, lag=timedelta(hours=1, minutes=5); or a column with time zone",
                step=self.place.step,
            )

    def _check_reused(self, connection: Connection, cursor: Any) -> None:
        """DataLossError if SQLite gives numbers again that were read: their rows would be passed over."""
        if connection.dialect.name != "sqlite" or cursor is None:
            return
        database: Any = connection.connection.driver_connection
        numbered = SqliteTable(database, split_table(self.table)[1])
        if any(column.key and column.name == self.column for column in columns_of(numbered.database, numbered.name)):
            end = numbered.end()
            if end < cursor:
                raise DataLossError(
                    f"the table {self.table!r} was read up to {self.column!r} {cursor} and ends before it: SQLite gives"
                    " the numbers of removed rows to new rows, which would be passed over",
                    remedy="let the column be INTEGER PRIMARY KEY AUTOINCREMENT, so that no number comes again, and"
                    f" {BEGIN_ANEW}",
                    step=self.place.step,
                )

    def _is_xid(self, connection: Connection) -> bool:
        if connection.dialect.name != "postgresql":
            return False
        schema, name = split_table(self.table)
        columns = "SELECT udt_name FROM information_schema.columns WHERE table_name = :name AND column_name = :column"
        here = f"{columns} AND table_schema = coalesce(:schema, current_schema())"
        values = {"name": name, "column": self.column, "schema": schema}
        return bool(connection.execute(text(here), values).scalar() == XID)

    def _span(self, connection: Connection, table: Table, cursor: Any) -> tuple[ColumnElement[bool], Any] | None:
        """The condition of the next rows, and the cursor that follows them; None if there are none."""
        by = self._by_xid if self._is_xid(connection) else self._by_value
        return by(connection, table, cursor)

    def _by_xid(self, connection: Connection, table: Table, cursor: Any) -> tuple[ColumnElement[bool], Any] | None:
        """Rows of transactions that have ended, all of them before the first that is open."""
        until = int(connection.execute(text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")).scalar_one())
        since = int(cursor or 0)
        column = table.c[self.column]
        ahead = column >= _xid(since)
        ordered = select(cast(column, sql.Text)).where(ahead, column < _xid(until)).order_by(column)
        cut = connection.execute(ordered.offset(self.rows).limit(1)).scalar()
        if cut is not None:
            # All rows of a transaction are in one poll, also if it has more than the limit.
            first = int(connection.execute(ordered.limit(1)).scalar_one())
            until = max(first + 1, int(cut))
        return (ahead & (column < _xid(until)), str(until)) if until > since else None

    def _by_value(self, connection: Connection, table: Table, cursor: Any) -> tuple[ColumnElement[bool], Any] | None:
        """Rows up to a value that is older than the lag, or that no later row can have."""
        column = table.c[self.column]
        timed = isinstance(column.type, sql.DateTime)
        ahead: list[ColumnElement[bool]] = []
        if cursor is not None:
            ahead.append(column > (datetime.fromisoformat(cursor) if timed else cursor))
        if timed:
            now = connection.execute(select(_now(connection.dialect.name, column.type))).scalar_one()
            limit = now - (self.lag or timedelta(0))
            ahead.append(column <= limit)
        # All rows of the last value are in one poll.
        nth = select(column).where(*ahead).order_by(column).offset(self.rows - 1).limit(1)
        last = connection.execute(nth).scalar()
        if last is None:
            last = connection.execute(select(func.max(column)).where(*ahead)).scalar()
        if last is None:
            return None
        return and_(*ahead, column <= last), last.isoformat() if timed else last


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledReader(PollReader):
    """The reader of a table that is polled."""

    source: TablePoll

    def check(self, start: Start) -> Known:
        """The table must be there, and its rows must be exact by the column, in which each has a value."""
        with self.source.place.reading(SourceReadError) as connection:
            self.source.check_placed(connection, self.source.reflected(connection))
        known = PollReader.check(self, start)
        if start.sealed and any(self._has_more(log) for log in start.logs):
            raise sealed_error(self.name, table=self.source.table)
        return known

    def _has_more(self, log: SourceLog) -> bool:
        """Whether rows lie in the spool that were not read, or another poll finds some: that changes no database."""
        spool = self.spool(log)
        if spool.end() > self.read_rows(log):
            return True
        rows, _ = self.source.poll(spool.cursor())
        return next(iter(rows), None) is not None

    def _registered(self, reading: Reading) -> str:
        # Spark's processes do not see variables that this one has got since.
        place = replace(self.source.place, url=Hidden(self.source.place.url.get_value() or ""))
        ready = replace(self, source=replace(self.source, place=place))
        return PollReader._registered(ready, reading)  # noqa: SLF001  the base class's

    def _schema(self, reading: Reading) -> StructType:
        return reading.schema_of(self._inferred)

    def _inferred(self) -> StructType:
        with self.source.place.reading(SourceReadError) as connection:
            table = self.source.reflected(connection)
            sqlite = connection.dialect.name == "sqlite"
        columns = ", ".join(f"{quoted(column.name)} {_field(column.type, sqlite=sqlite)}" for column in table.columns)
        return StructType.fromDDL(columns)  # type: ignore[return-value]  # a list of fields is a struct


def _xid(number: int) -> ColumnElement[Any]:
    return literal_column(f"'{number}'::xid8")


def _field(kind: sql.TypeEngine[Any], *, sqlite: bool) -> str:
    if isinstance(kind, sql.DateTime):
        return "timestamp" if _zoned(kind) else "timestamp_ntz"
    if isinstance(kind, sql.Numeric) and not isinstance(kind, sql.Float):
        digits, scale = kind.precision or 0, kind.scale or 0
        # Decimals with more digits than Spark's, or with a negative scale, are texts.
        spark = digits and 0 <= scale <= digits <= MOST_DIGITS
        return f"decimal({digits},{scale})" if spark and not sqlite else "string"
    return next((name for base, name in FIELDS if isinstance(kind, base)), "string")


def _zoned(kind: sql.TypeEngine[Any]) -> bool:
    """Whether values are moments: of MySQL's type TIMESTAMP they come without a zone, in that of the session, UTC."""
    return bool(getattr(kind, "timezone", False)) or isinstance(kind, mysql.TIMESTAMP)


def _now(dialect: str, kind: sql.TypeEngine[Any]) -> ColumnElement[Any]:
    """The time of the database for a column, in which writers of a plain time have that of the server's zone."""
    if dialect == "postgresql":
        return func.now() if _zoned(kind) else func.localtimestamp()
    utc = func.utc_timestamp(6, type_=sql.DateTime())
    zone: ColumnElement[str] = literal_column("@@global.time_zone")
    return utc if _zoned(kind) else func.convert_tz(utc, "+00:00", zone, type_=sql.DateTime())


def _exact(column: Column[Any], dialect: str) -> ColumnElement[Any]:
    """A column as the database has its values, where the driver or SQLAlchemy would round them."""
    kind = column.type
    made: ColumnElement[Any] = column
    if dialect == "postgresql" and _field(kind, sqlite=False) == "string" and not isinstance(kind, KEPT):
        made = cast(column, sql.Text)
    elif isinstance(kind, sql.JSON | mysql.SET | mysql.ENUM):
        # Numbers in JSON would be doubles, the values of a SET in any order, and a line break in an ENUM unknown.
        made = type_coerce(column, sql.Text)
    elif dialect == "sqlite" and _is_decimal(kind):
        # SQLAlchemy makes a double of it, and rounds that.
        made = type_coerce(column, sql.NullType())
    elif isinstance(kind, mysql.FLOAT):
        # The server writes six digits of a FLOAT, and all of a DOUBLE.
        made = type_coerce(column + literal_column("0e0"), sql.Float())
    elif isinstance(kind, mysql.DOUBLE):
        # SQLAlchemy makes a decimal of it, with ten digits after the point.
        made = type_coerce(column, sql.Float())
    elif isinstance(kind, mysql.TIME):
        # SQLAlchemy makes a time of a day of it; the server writes as many decimals as the column has.
        made = cast(column, sql.Text)
    return made.label(column.name)


def lines_of(rows: Iterable[Sequence[Any]], columns: Iterable[Column[Any]], *, loose: bool = False) -> Iterator[bytes]:
    """Rows of a query as texts of JSON objects; `loose`: a column may have values of other types than its own."""
    kinds = {str(column.name): column.type for column in columns}
    others = [(name, kind) for name, kind in kinds.items() if loose or not isinstance(kind, AS_THEY_ARE)]
    reals = [name for name, kind in kinds.items() if loose or not isinstance(kind, UNREAL)]
    names = [*kinds]
    for row in rows:
        made = dict(zip(names, row, strict=True))
        for name, kind in others:
            made[name] = _plain(made[name], kind)
        yield _line(made, reals)


def _line(row: dict[str, Any], reals: Sequence[str]) -> bytes:
    """A row as `line_of` would write it, but faster: orjson has no NaN and no infinity, and numbers of 64 bits only."""
    if all(not isinstance(row[name], float) or isfinite(row[name]) for name in reals):
        with suppress(TypeError):
            return orjson.dumps(row, default=plain)
    return line_of(row)


def _is_decimal(kind: sql.TypeEngine[Any]) -> bool:
    return isinstance(kind, sql.Numeric) and not isinstance(kind, sql.Float)


def _plain(value: object, kind: sql.TypeEngine[Any]) -> object:
    if isinstance(value, datetime) and _zoned(kind):
        return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, int | float) and _is_decimal(kind):
        return _digits(value, kind.scale)  # type: ignore[attr-defined]  # a Numeric
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(value) if isinstance(value, UUID | time) else value


def _digits(value: float, scale: int | None) -> str:
    """All digits of a number of SQLite, and as many decimals as its column declares.

    >>> _digits(12.5, 2), _digits(12.345, 2), _digits(9007199254740993, None)
    ('12.50', '12.345', '9007199254740993')
    """
    number = Decimal(repr(value))
    given = number.as_tuple().exponent
    short = isinstance(given, int) and -given < (scale or 0)
    return f"{number:.{scale}f}" if short else f"{number:f}"


def polled(
    place: Place, name: str, *, table: str, column: str, lag: timedelta | None, every: timedelta, keep: int, rows: int
) -> PolledReader:
    """The reader of a step."""
    source = TablePoll(place=place, table=table, column=column, lag=lag, rows=rows, every=every, keep=keep)
    return PolledReader(name=name, max_rows_per_batch=None, source=source)
