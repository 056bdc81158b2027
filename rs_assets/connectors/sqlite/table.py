"""A table that only grows: its key, its end, and the rows between two offsets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rs_assets.connectors.sqlite.database import Column, columns_of, quoted
from rs_assets.errors import CheckpointError, SourceReadError

# Less than any key that a table is likely to have.
LEAST = -(1 << 63)
# How many rows are fetched at once.
CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class Offset:
    """The key of the last row that was read, and how many rows were read in all.

    >>> Offset.load(Offset(17, 12).text)
    Offset(key=17, rows=12)
    """

    key: int = LEAST
    rows: int = 0

    @property
    def text(self) -> str:
        """The text for Spark's log."""
        return orjson.dumps(self.dump()).decode()

    def dump(self) -> dict[str, int]:
        """The offset as JSON-ready data."""
        return {"key": self.key, "rows": self.rows}

    @classmethod
    def load(cls, data: Mapping[str, object] | str | None) -> Offset:
        """The offset in `data`, or in JSON text (None: before the first row); else CheckpointError."""
        if data is None:
            return cls()
        try:
            body: Any = orjson.loads(data) if isinstance(data, str) else data
            return cls(int(body["key"]), int(body["rows"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{str(data)[:100]!r} is not an offset of a SQLite table") from error


@dataclass(frozen=True, slots=True)
class Table:
    """The table `name` over an open connection."""

    database: sqlite3.Connection
    name: str

    def columns(self) -> list[Column]:
        """Its columns; SourceReadError if it does not exist or has no INTEGER PRIMARY KEY."""
        found = columns_of(self.database, self.name)
        if not found:
            raise SourceReadError(f"there is no table {self.name!r}", remedy="create it, or correct its name")
        if not any(column.key for column in found):
            raise SourceReadError(
                f"the table {self.name!r} has no INTEGER PRIMARY KEY to read its rows by",
                remedy="add one: id INTEGER PRIMARY KEY AUTOINCREMENT",
            )
        return found

    @property
    def key(self) -> str:
        """Its key as an SQL expression."""
        return next(f"t.{quoted(column.name)}" for column in self.columns() if column.key)

    def end(self) -> int:
        """The greatest key in it; for AUTOINCREMENT the greatest key ever used."""
        (last,) = self.database.execute(f"SELECT max({self.key}) FROM {quoted(self.name)} AS t").fetchone()  # noqa: S608
        (counts,) = self.database.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'"
        ).fetchone()
        given = (
            self.database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [self.name]).fetchone()
            if counts
            else None
        )
        return max(LEAST if last is None else last, given[0] if given else LEAST)

    def late(self, read: Offset) -> int:
        """How many rows have keys that were passed, more than were read; rows that were removed make up for some."""
        (count,) = self.database.execute(
            f"SELECT count(*) FROM {quoted(self.name)} AS t WHERE {self.key} <= ?",  # noqa: S608
            [read.key],
        ).fetchone()
        return int(max(0, count - read.rows))

    def plan(self, start: Offset, *, until: int | None = None, rows: int | None = None) -> Offset:
        """The end of a batch from `start` with at most `rows` rows, none of them with a key above `until`."""
        key = self.key
        count, last = self.database.execute(
            f"SELECT count(*), max(k) FROM (SELECT {key} AS k FROM {quoted(self.name)} AS t"  # noqa: S608
            f" WHERE {key} > ? AND {key} <= ? ORDER BY {key} LIMIT ?)",
            [start.key, (1 << 63) - 1 if until is None else until, -1 if rows is None else rows],
        ).fetchone()
        return Offset(last, start.rows + count) if count else start

    def rows(self, start: Offset, end: Offset, fields: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """The rows between two offsets by key, in chunks: the key, then the fields."""
        key = self.key
        # A quoted name alone would be read as text if there were no such column.
        wanted = ", ".join([key, *(f"t.{quoted(field)}" for field in fields)])
        found = self.database.execute(
            f"SELECT {wanted} FROM {quoted(self.name)} AS t WHERE {key} > ? AND {key} <= ? ORDER BY {key}",  # noqa: S608
            [start.key, end.key],
        )
        while chunk := found.fetchmany(CHUNK):
            yield chunk
