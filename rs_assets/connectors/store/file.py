"""The file of a store: rows by key, the batch that they are of, and what the last batches have changed.

It is a SQLite database with a write-ahead log: a batch is one transaction, and a reader in any process of the host sees
a whole batch, the old one or the new one, while the next one is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

import orjson

from rs_assets.connectors.generations import Lineage, Point

# How many batches can be undone.
KEPT_BATCHES = 100
TABLES = (
    "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS steps (number INTEGER PRIMARY KEY, head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS before (number INTEGER, key BLOB, row BLOB, PRIMARY KEY (number, key)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the rows are of: the `layout` of rows, and the last batch with its watermark and the time of its commit.

    `points` are all batches that have just these rows, the newest last: a return adds one.
    """

    layout: str
    points: tuple[Point, ...]
    watermark: datetime | None
    at: datetime

    @property
    def batch(self) -> int:
        """The last batch."""
        return self.points[-1].batch

    @property
    def generation(self) -> int:
        """The generation of the last batch."""
        return self.points[-1].generation

    def with_point(self, point: Point) -> Head:
        """The same rows, also those of `point`."""
        return self if point == self.points[-1] else replace(self, points=(*self.points, point))

    def text(self) -> str:
        """As JSON."""
        watermark = self.watermark.isoformat() if self.watermark is not None else None
        points = [list(point) for point in self.points]
        content = {"layout": self.layout, "points": points, "watermark": watermark, "at": self.at.isoformat()}
        return orjson.dumps(content).decode()


@lru_cache(maxsize=64)
def head_of(text: str) -> Head:
    """The head that `Head.text` has written."""
    found = orjson.loads(text)
    return Head(
        layout=found["layout"],
        points=tuple(Point(*point) for point in found["points"]),
        watermark=datetime.fromisoformat(found["watermark"]) if found["watermark"] is not None else None,
        at=datetime.fromisoformat(found["at"]),
    )


def make(database: sqlite3.Connection) -> None:
    """The tables, in the open transaction."""
    for statement in TABLES:
        database.execute(statement)


def exists(database: sqlite3.Connection) -> bool:
    """Whether a batch was written."""
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = 'steps'").fetchone() is not None


def steps(database: sqlite3.Connection) -> list[tuple[int, Head]]:
    """The last batches, newest first; the oldest one cannot be undone."""
    if not exists(database):
        return []
    found = database.execute("SELECT number, head FROM steps ORDER BY number DESC")
    return [(number, head_of(text)) for number, text in found]


def lineage(heads: Iterable[Head]) -> Lineage:
    """The returns of the generations, which are points of these heads."""
    pairs = [pair for head in heads for pair in pairwise(head.points)]
    return Lineage({begun.generation: kept for kept, begun in pairs if begun.generation > kept.generation})


def newest(database: sqlite3.Connection) -> str | None:
    """The text of the newest head, None for an empty store."""
    found = database.execute("SELECT head FROM steps ORDER BY number DESC LIMIT 1").fetchone()
    return None if found is None else str(found[0])


def clear(database: sqlite3.Connection, base: Head) -> None:
    """Remove all rows; the store then ends at `base`."""
    for table in ("rows", "steps", "before"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608  one of ours
    database.execute("INSERT INTO steps VALUES (0, ?)", [base.text()])


def apply(database: sqlite3.Connection, changes: Iterable[tuple[bytes, bytes | None]], head: Head) -> None:
    """Write a batch, in the open transaction; `changes` are keys with their new row, None for one that goes."""
    (number,) = database.execute("SELECT max(number) + 1 FROM steps").fetchone()
    database.execute("CREATE TEMP TABLE changed (key BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID")
    database.executemany("INSERT INTO changed VALUES (?, ?)", changes)
    database.execute(
        "INSERT INTO before SELECT ?, changed.key, rows.row FROM changed LEFT JOIN rows USING (key)", [number]
    )
    database.execute("DELETE FROM rows WHERE key IN (SELECT key FROM changed WHERE row IS NULL)")
    database.execute("INSERT OR REPLACE INTO rows SELECT key, row FROM changed WHERE row IS NOT NULL")
    database.execute("DROP TABLE changed")
    database.execute("INSERT INTO steps VALUES (?, ?)", [number, head.text()])
    database.execute("DELETE FROM steps WHERE number < ?", [number - KEPT_BATCHES])
    database.execute("DELETE FROM before WHERE number <= ?", [number - KEPT_BATCHES])


def undo(database: sqlite3.Connection, number: int) -> None:
    """Undo all batches after step `number`, newest first, in the open transaction."""
    later = database.execute("SELECT number FROM steps WHERE number > ? ORDER BY number DESC", [number]).fetchall()
    for step in later:
        database.execute("DELETE FROM rows WHERE key IN (SELECT key FROM before WHERE number = ?)", step)
        database.execute("INSERT INTO rows SELECT key, row FROM before WHERE number = ? AND row IS NOT NULL", step)
        database.execute("DELETE FROM before WHERE number = ?", step)
        database.execute("DELETE FROM steps WHERE number = ?", step)
