"""The access log example against DuckDB, which computes the same from the same file in one batch."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from pipelines.examples.access_log import COMBINED, access_log
from pipelines.examples.access_log_data import lines, write
from pipelines.runtime.options import RunOptions

REAL_LOG = Path(__file__).parents[3] / "shared" / "data" / "apache_access.log"
LINES = 5_000
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
    return f"time: '{match['time']}' is no timestamp" if "20x6" in match["time"] else None


def letters(options: RunOptions) -> dict[int, tuple[int, str]]:
    rows = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert {row["split"] for row in rows} <= {"access.log", "apache_access.log"}
    found = {row["line"]: (row["offset"], row["reason"]) for row in rows}
    assert len(found) == len(rows), "a dead letter twice"
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "in" / "access.log", LINES)


def test_the_tables_equal_one_batch_of_duckdb(log: Path, options: RunOptions) -> None:
    pipeline = access_log(log, job="generated", max_rows_per_batch=2_000)
    report = pipeline.run(options, finish=True)
    pages, sessions = written(options)
    assert (pages, sessions) == expected(log)
    dead = malformed(log)
    assert letters(options) == dead
    assert len({reason.partition(":")[0] for _, reason in dead.values()}) == 3, "every kind of reason is there"
    assert (report.rows_in, report.rows_dead, report.rows_late) == (LINES, len(dead), 0)
    assert report.rows_out == len(pages) + len(sessions)
    assert sum(page[2] for page in pages) == sum(session[1] for session in sessions) == LINES - len(dead)
    for query in report.queries:
        assert query.rows_on == LINES - len(dead)
    again = pipeline.run(options, finish=True)
    assert (again.rows_in, again.rows_out, again.batches) == (0, 0, 0)
    assert written(options) == (pages, sessions)


def test_appended_lines_go_into_windows_that_were_open(log: Path, options: RunOptions) -> None:
    content = list(lines(LINES))
    # 700 ms a line: the cut is in the middle of a window and of many sessions.
    log.write_bytes(b"".join(line + b"\n" for line in content[:3_000]) + content[3_000][:40])
    pipeline = access_log(log, job="appended")
    first = pipeline.run(options)
    assert first.rows_in == 3_000
    assert first.rows_open > 0
    idle = pipeline.run(options)
    assert (idle.rows_in, idle.rows_out, idle.batches) == (0, 0, 0)
    assert idle.rows_open == first.rows_open
    with log.open("ab") as file:
        file.write(content[3_000][40:] + b"\n" + b"".join(line + b"\n" for line in content[3_001:]))
    second = pipeline.run(options, finish=True)
    assert second.rows_in == LINES - 3_000
    assert written(options) == expected(log)
    assert letters(options) == malformed(log)


@pytest.mark.skipif(not REAL_LOG.exists(), reason="the log of a real server is not beside this checkout")
def test_the_log_of_a_real_server_equals_duckdb(options: RunOptions) -> None:
    report = access_log(REAL_LOG, job="real").run(options, finish=True)
    assert (report.rows_in, report.rows_late) == (10_000, 0)
    assert written(options) == expected(REAL_LOG)
    assert letters(options) == malformed(REAL_LOG)
    assert report.rows_dead == len(malformed(REAL_LOG))
