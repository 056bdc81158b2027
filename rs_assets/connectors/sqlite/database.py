"""SQLite connections for one piece of work, and the columns of a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

from rs_assets.errors import RsError

# How long another writer may hold the database.
PATIENCE = timedelta(seconds=30)
# The remedy by the kind of error, the first that fits.
REMEDIES: Mapping[type[sqlite3.Error], str] = MappingProxyType(
    {
        sqlite3.IntegrityError: "a constraint or a unique index of the table forbids a row: drop it, or keep such rows"
        " from the sink (filter, distinct), then start again",
        sqlite3.OperationalError: "check that the database exists, may be used by this user and is not locked by"
        " another program",
        sqlite3.Error: "check that the file is an intact SQLite database: PRAGMA integrity_check",
    }
)
ROOM = "make room on the disk of the database, then start again: nothing of the batch is in the table"


@contextmanager
def connected(
    path: str, failure: type[RsError], *, write: bool = False, patience: timedelta = PATIENCE
) -> Iterator[sqlite3.Connection]:
    """A connection for the block, in autocommit; SQLite's errors in it become `failure`, with the database's name.

    With `write` the database is created if it does not exist. Text that is not UTF-8 is read with surrogate escapes.
    """
    mode = "rwc" if write else "ro"
    try:
        with closing(_connect(f"{Path(path).absolute().as_uri()}?mode={mode}", patience)) as database:
            database.text_factory = _text
            yield database
    except sqlite3.Error as error:
        known = next(remedy for kind, remedy in REMEDIES.items() if isinstance(error, kind))
        raise failure(
            f"SQLite: {error}",
            remedy=ROOM if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL else known,
            database=path,
        ) from error


def connect_to_read(path: str) -> sqlite3.Connection:
    """A connection that threads may share, in autocommit, to an existing database; sqlite3.Error without one."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    seconds = PATIENCE.total_seconds()
    return sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)


def _connect(uri: str, patience: timedelta) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=patience.total_seconds(), isolation_level=None)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def quoted(name: str) -> str:
    """`name` as a quoted identifier of SQLite.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the table declares it; `key` if it is the INTEGER PRIMARY KEY, which SQLite itself keeps unique."""

    name: str
    kind: str
    key: bool


def columns_of(database: sqlite3.Connection, table: str) -> list[Column]:
    """The columns of a table; none if there is no such table."""
    rows = database.execute("SELECT name, type, pk FROM pragma_table_info(?)", [table]).fetchall()
    alone = sum(bool(key) for _, _, key in rows) == 1
    return [Column(name, kind, alone and bool(key) and kind.upper() == "INTEGER") for name, kind, key in rows]
