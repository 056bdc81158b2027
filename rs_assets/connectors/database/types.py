"""The types of columns: for new tables, and which existing columns take a field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)
from sqlalchemy import Connection
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from rs_assets.errors import SinkError

NESTED = (ArrayType, MapType, StructType)
# MySQL and MariaDB index no text without a length.
KEY_LENGTH = 255
# Of a new table: rolled back if need be, and with all characters, whatever the defaults of the server are.
MYSQL_TABLE: Mapping[str, Any] = MappingProxyType(
    {
        f"{name}_{option}": value
        for name in ("mysql", "mariadb")
        for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"))
    }
)
# The family of values of a field, by its type; those of other types have no column.
FAMILIES: Mapping[type[DataType], str] = MappingProxyType(
    dict.fromkeys((ByteType, ShortType, IntegerType, LongType), "whole")
    | dict.fromkeys((FloatType, DoubleType), "floating")
    | dict.fromkeys((StringType, CharType, VarcharType), "text")
    | dict.fromkeys((TimestampType, TimestampNTZType), "time")
    | dict.fromkeys(NESTED, "json")
    | {BooleanType: "boolean", DecimalType: "decimal", BinaryType: "binary", DateType: "date"}
)
# The families of columns that take the values of a field's family without a change.
TAKES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "whole": frozenset({"whole", "decimal", "money"}),
        "floating": frozenset({"floating"}),
        "decimal": frozenset({"decimal"}),
        "boolean": frozenset({"boolean"}),
        "text": frozenset({"text", "clock", "money", "digits"}),
        "binary": frozenset({"binary", "bits"}),
        "time": frozenset({"time"}),
        "date": frozenset({"date"}),
        "json": frozenset({"json", "text"}),
    }
)
# The family of a column, the first that fits; others (uuid, enum, inet...) are left to the database.
COLUMNS: tuple[tuple[type[sql.TypeEngine[Any]], str], ...] = (
    (sql.Enum, ""),
    (sql.Integer, "whole"),
    (sql.Float, "floating"),
    (sql.Numeric, "decimal"),
    (sql.Boolean, "boolean"),
    (sql.JSON, "json"),
    (sql.String, "text"),
    (sql.LargeBinary, "binary"),
    (sql.DateTime, "time"),
    (sql.Date, "date"),
    # A time of the day drops the date, money has cents, and a bit is the byte of a digit, or the digit itself.
    (sql.Time, "clock"),
    (postgresql.MONEY, "money"),
    (mysql.BIT, "bits"),
    (postgresql.BIT, "digits"),
)


def column_type(kind: DataType, dialect: str, *, key: bool = False) -> sql.TypeEngine[Any] | None:
    """The type of a new column for values of `kind`; None if no column can hold them.

    >>> str(column_type(LongType(), "postgresql")), column_type(TimestampType(), "postgresql").timezone
    ('BIGINT', True)
    """
    if isinstance(kind, DecimalType):
        # SQLite has no exact decimals: they are text there.
        return sql.Text() if dialect == "sqlite" else sql.Numeric(kind.precision, kind.scale)
    if key and _mysql(dialect) and isinstance(kind, StringType):
        # Where the database has it, a collation by which "a" and "a " are two keys.
        pad = "nopad_bin" if dialect == "mariadb" else "bin"
        return mysql.VARCHAR(KEY_LENGTH, charset="utf8mb4", collation=f"utf8mb4_{pad}")
    if isinstance(kind, NESTED) and dialect == "postgresql":
        return postgresql.JSONB()
    own = _MYSQL.get(type(kind)) if _mysql(dialect) else None
    return own or _SIMPLE.get(type(kind))


# TEXT and BLOB of MySQL have 64 KiB at most, its FLOAT is what others call REAL.
_LONG_TEXT = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
_MYSQL: Mapping[type[DataType], sql.TypeEngine[Any]] = MappingProxyType(
    dict.fromkeys((StringType, CharType, VarcharType, *NESTED), _LONG_TEXT)
    | dict.fromkeys((TimestampType, TimestampNTZType), mysql.DATETIME(fsp=6))
    | {BinaryType: mysql.LONGBLOB(), FloatType: mysql.FLOAT()}
)


_SIMPLE: Mapping[type[DataType], sql.TypeEngine[Any]] = MappingProxyType(
    {
        ByteType: sql.SmallInteger(),
        ShortType: sql.SmallInteger(),
        IntegerType: sql.Integer(),
        LongType: sql.BigInteger(),
        FloatType: sql.REAL(),
        DoubleType: sql.Double(),
        BooleanType: sql.Boolean(),
        StringType: sql.Text(),
        CharType: sql.Text(),
        VarcharType: sql.Text(),
        BinaryType: sql.LargeBinary(),
        DateType: sql.Date(),
        **dict.fromkeys(NESTED, sql.Text()),
        TimestampType: sql.DateTime(timezone=True),
        TimestampNTZType: sql.DateTime(),
    }
)


def takes(kind: DataType, column: sql.TypeEngine[Any], dialect: str) -> bool:
    """Whether a column of an existing table takes the values of a field, as far as its type shows."""
    if isinstance(column, postgresql.DOMAIN):
        return takes(kind, column.data_type, dialect)
    found = next((family for base, family in COLUMNS if isinstance(column, base)), "")
    wanted = FAMILIES[type(kind)]
    if dialect == "sqlite" or not found:
        # What a column of SQLite takes, its declared type shows.
        return True
    if wanted == "boolean" and _mysql(dialect):
        return found in ("boolean", "whole")
    return found in TAKES[wanted] and not _rounds(kind, column)


def _rounds(kind: DataType, column: sql.TypeEngine[Any]) -> bool:
    """Whether a column of the right family has fewer digits than values of a field."""
    scale = getattr(column, "scale", None)
    if isinstance(kind, DoubleType | FloatType):
        # DOUBLE(10,2) of MySQL has two decimals, as a FLOAT(10,2).
        short = isinstance(kind, DoubleType) and isinstance(column, sql.REAL | mysql.FLOAT)
        return short or (isinstance(column, mysql.DOUBLE | mysql.FLOAT) and scale is not None)
    # Digits before the point may be rounded, too: numeric(9,-2) of Postgres has hundreds.
    return scale is not None and scale < (kind.scale if isinstance(kind, DecimalType) else 0)


def check_type(name: str, kind: DataType, *, step: str) -> None:
    """SinkError for a field whose values no column can hold."""
    if type(kind) not in FAMILIES:
        raise SinkError(
            f"step {step!r}: the field {name!r} is {kind.simpleString()}, for which databases have no column",
            remedy=f"convert it first: .with_fields({name}='cast({name} AS string)'), or leave it out (select_fields)",
            step=step,
        )


def dialect_of(connection: Connection) -> str:
    """The name of the database's kind: MariaDB by its own name, though a URL may call it mysql."""
    return "mariadb" if getattr(connection.dialect, "is_mariadb", False) else connection.dialect.name


def _mysql(dialect: str) -> bool:
    return dialect in ("mysql", "mariadb")
