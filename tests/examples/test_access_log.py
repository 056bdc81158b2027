"""The access log example against DuckDB, which computes the same from the same file in one batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.access_log import access_log
from pipelines.access_log_data import lines, write
from rs_assets.runtime.options import RunOptions
from tests.examples.access_log import expected, letters, malformed, written

REAL_LOG = Path(__file__).parents[3] / "shared" / "data" / "apache_access.log"
LINES = 5_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "in" / "access.log", LINES)


@pytest.mark.canary
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
    options = replace(options, preview_rows=2)
    first = pipeline.run(options)
    assert first.rows_in == 3_000
    assert first.rows_open > 0
    assert {step: rows.num_rows for step, rows in first.previews.items()} == {"page_windows": 2, "client_sessions": 2}
    idle = pipeline.run(options)
    assert (idle.rows_in, idle.rows_out, idle.batches, idle.previews) == (0, 0, 0, {})
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
