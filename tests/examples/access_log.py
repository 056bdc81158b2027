"""What the access log example must write, by DuckDB in one batch, and what it has written."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from pipelines.access_log import COMBINED
from rs_assets.runtime.options import RunOptions

Rows = list[tuple[Any, ...]]

# One row a line of the log, in its order, with null where it does not parse.
PARSED = """
CREATE TABLE parsed AS
WITH matched AS (
    SELECT regexp_extract(line, $pattern, ['client', 'time', 'method', 'path', 'status', 'bytes']) AS f FROM raw
)
SELECT f.client AS client, f.path AS path, CAST(f.status AS int) AS status,
       coalesce(try_cast(f.bytes AS bigint), 0) AS bytes,
       try_strptime(f.time, '%d/%b/%Y:%H:%M:%S %z') AT TIME ZONE 'UTC' AS time
FROM matched WHERE f.client <> '' AND try_strptime(f.time, '%d/%b/%Y:%H:%M:%S %z') IS NOT NULL
"""
PAGES = """
SELECT status, path, count(*), sum(bytes)::bigint, sum((status >= 400)::int)::bigint,
       time_bucket(INTERVAL 10 MINUTE, time) AS start_time, time_bucket(INTERVAL 10 MINUTE, time) + INTERVAL 10 MINUTE
FROM parsed GROUP BY ALL ORDER BY ALL
"""
# A request begins a session if the one before it is more than 30 minutes ago: gaps and islands.
SESSIONS = """
WITH marked AS (
    SELECT *, coalesce(time - lag(time) OVER w > INTERVAL 30 MINUTE, true)::int AS first FROM parsed
    WINDOW w AS (PARTITION BY client ORDER BY time)
), numbered AS (
    SELECT *, sum(first) OVER (PARTITION BY client ORDER BY time) AS session FROM marked
)
SELECT client, count(*), sum(bytes)::bigint, count(DISTINCT path), min(time), max(time) + INTERVAL 30 MINUTE
FROM numbered GROUP BY client, session ORDER BY ALL
"""


def expected(log: Path) -> tuple[Rows, Rows]:
    """What the two tables must hold."""
    texts = [line for line in log.read_bytes().split(b"\n") if _is_utf8(line)]
    with duckdb.connect() as database:
        database.execute("CREATE TABLE raw (line varchar)")
        database.execute("INSERT INTO raw SELECT unnest($lines)", {"lines": [text.decode() for text in texts]})
        database.execute(PARSED, {"pattern": f"^(?:{COMBINED})$"})
        return database.execute(PAGES).fetchall(), database.execute(SESSIONS).fetchall()


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def written(options: RunOptions) -> tuple[Rows, Rows]:
    """What the pipeline wrote, without the time at which windows fired."""
    return (
        _table(options, "requests_by_page", "status, path, requests, bytes, errors"),
        _table(options, "sessions", "client, requests, bytes, pages"),
    )


def _table(options: RunOptions, name: str, fields: str) -> Rows:
    columns = [*fields.split(", "), "start_time", "end_time"]
    rows = DeltaTable(options.home.table("web", name)).to_pyarrow_table(columns=columns).to_pylist()
    return sorted(tuple(_naive(row[c]) for c in columns) for row in rows)


def _naive(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def malformed(log: Path) -> dict[int, tuple[int, str]]:
    """Offset and reason of each line that is none, by its number."""
    found, offset = {}, 0
    for number, line in enumerate(log.read_bytes().split(b"\n"), start=1):
        reason = _reason(line) if line else None
        if reason:
            found[number] = (offset, reason)
        offset += len(line) + 1
    return found


def _reason(line: bytes) -> str | None:
    if not _is_utf8(line):
        return "invalid UTF-8"
    match = re.fullmatch(COMBINED, line.decode())
    if match is None:
        return "the line does not match the pattern"
    return f"time: '{match['time']}' is not of type timestamp" if "20x6" in match["time"] else None


def letters(options: RunOptions) -> dict[int, tuple[int, str]]:
    rows = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert {row["split"] for row in rows} <= {"access.log", "apache_access.log"}
    found = {row["line"]: (row["offset"], row["reason"]) for row in rows}
    assert len(found) == len(rows), "a dead letter twice"
    return found
