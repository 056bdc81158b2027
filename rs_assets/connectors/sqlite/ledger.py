"""Marks of sinks in SQLite: last batches, tokens, claims and returns, written in the transaction of the rows."""

from __future__ import annotations

import sqlite3

from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.connectors.sqlite.database import columns_of

# The last batch of each writer and generation, and the token with which it was written.
MARKS = """CREATE TABLE IF NOT EXISTS _rs_marks (
    pipeline_id TEXT NOT NULL, sink TEXT NOT NULL, generation INTEGER NOT NULL, batch INTEGER NOT NULL,
    token INTEGER NOT NULL, PRIMARY KEY (pipeline_id, sink, generation)) WITHOUT ROWID"""
# The last start under a pipeline's name.
CLAIMS = """CREATE TABLE IF NOT EXISTS _rs_claims (
    name TEXT PRIMARY KEY, claim INTEGER NOT NULL, pipeline_id TEXT NOT NULL, home TEXT NOT NULL) WITHOUT ROWID"""
# The batch and generation after which a later generation began.
RETURNS = """CREATE TABLE IF NOT EXISTS _rs_returns (
    pipeline_id TEXT NOT NULL, sink TEXT NOT NULL, begun INTEGER NOT NULL, generation INTEGER NOT NULL,
    batch INTEGER NOT NULL, PRIMARY KEY (pipeline_id, sink, begun)) WITHOUT ROWID"""


def begin(database: sqlite3.Connection) -> None:
    """Begin a write transaction, with the tables of markers."""
    database.execute("BEGIN IMMEDIATE")
    database.execute(MARKS)
    database.execute(CLAIMS)
    database.execute(RETURNS)


def last_batch(database: sqlite3.Connection, mark: BatchMark) -> int:
    """The last batch of the mark's generation, -1 for none."""
    if not columns_of(database, "_rs_marks"):
        return -1
    found = database.execute(
        "SELECT batch FROM _rs_marks WHERE pipeline_id = ? AND sink = ? AND generation = ?",
        [mark.pipeline_id, mark.sink, mark.generation],
    ).fetchone()
    return int(found[0]) if found else -1


def points(database: sqlite3.Connection, mark: BatchMark) -> list[Point]:
    """The last batch of each generation of the mark's sink, the newest generation first; -1 is none."""
    if not columns_of(database, "_rs_marks"):
        return []
    found = database.execute(
        "SELECT generation, batch FROM _rs_marks WHERE pipeline_id = ? AND sink = ? ORDER BY generation DESC",
        [mark.pipeline_id, mark.sink],
    ).fetchall()
    return [Point(*row) for row in found]


def newest(database: sqlite3.Connection, mark: BatchMark) -> list[Point]:
    """The points with the table's rows: the last batch, and those from which its generation began without new rows."""
    written = [point for point in points(database, mark) if point.batch >= 0]
    found = []
    if columns_of(database, "_rs_returns"):
        found = database.execute(
            "SELECT begun, generation, batch FROM _rs_returns WHERE pipeline_id = ? AND sink = ?",
            [mark.pipeline_id, mark.sink],
        ).fetchall()
    lineage = Lineage({begun: Point(generation, batch) for begun, generation, batch in found})
    return lineage.unchanged(written[0]) if written else []


def last_writer(database: sqlite3.Connection, mark: BatchMark) -> LastWriter:
    """The greatest token of the mark's pipeline and sink, and the last claim of its name."""
    if not columns_of(database, "_rs_marks"):
        return LastWriter()
    (token,) = database.execute(
        "SELECT max(token) FROM _rs_marks WHERE pipeline_id = ? AND sink = ?", [mark.pipeline_id, mark.sink]
    ).fetchone()
    claimed = database.execute(
        "SELECT claim, pipeline_id, home FROM _rs_claims WHERE name = ?", [mark.claimed]
    ).fetchone()
    claim, pipeline_id, home = claimed or (0, "", "")
    return LastWriter(token=token or 0, claim=claim, pipeline_id=pipeline_id, home=home)


def note(database: sqlite3.Connection, mark: BatchMark, *, batch: int) -> None:
    """Write the marker of a batch, or of none (-1), the token and the claim."""
    database.execute(
        "INSERT INTO _rs_marks (pipeline_id, sink, generation, batch, token) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET batch = max(batch, excluded.batch), token = max(token, excluded.token)",
        [mark.pipeline_id, mark.sink, mark.generation, batch, mark.token],
    )
    if mark.claim is not None:
        database.execute(
            "INSERT OR REPLACE INTO _rs_claims (name, claim, pipeline_id, home) VALUES (?, ?, ?, ?)",
            [mark.claimed, mark.claim.number, mark.pipeline_id, mark.claim.home],
        )
