"""Wrong statements: each is refused at its line and column before anything runs, and most errors say what to write.

wrong_statements.txt has a statement, and below it the column at which it is refused and what is said.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import ConfigurationError, SqlError

TABLES = """\
CREATE TABLE clicks (
    page STRING, ms BIGINT, ok BOOLEAN, price DECIMAL(10, 2), tags ARRAY<STRING>, who ROW<id BIGINT, name STRING>,
    ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '/in/clicks', 'format' = 'json');
CREATE TABLE views (page STRING, n BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/in/views', 'format' = 'json');
CREATE TABLE plain (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in/plain', 'format' = 'json');
CREATE TABLE dim (page STRING, owner STRING)
    WITH ('connector' = 'filesystem', 'path' = '/in/dim.json', 'format' = 'json');
CREATE TABLE out1 (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE files (page STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/out', 'format' = 'json');
"""
LINES = Path(__file__).with_name("wrong_statements.txt").read_text(encoding="utf-8").splitlines()
WRONG = [(statement, *said.strip().split(": ", 1)) for statement, said in zip(LINES[::2], LINES[1::2], strict=True)]


def refused(statement: str) -> SqlError:
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(TABLES + statement)
    return error.value


@pytest.mark.parametrize(("statement", "column", "what"), WRONG, ids=[statement for statement, _, _ in WRONG])
def test_should_say_where_and_what(statement: str, column: str, what: str) -> None:
    error = refused(statement)
    assert (error.line, error.column, error.what) == (TABLES.count("\n") + 1, int(column), what)


def test_should_leave_few_without_a_remedy() -> None:
    without = [statement for statement, _, _ in WRONG if not refused(statement).remedy]
    assert len(without) < len(WRONG) / 10


def test_should_say_what_a_file_is_not(tmp_path: Path) -> None:
    file = tmp_path / "clicks.sql"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not in UTF-8"):
        pipeline_from_sql(file)
    statement = "INSERT INTO out1 SELECT page, ms FROM clicks UNION ALL SELECT page, NULL FROM clicks"
    file.write_text(f"\ufeff{TABLES}{statement}", encoding="utf-8")
    assert pipeline_from_sql(file).name == "sql.clicks"


@pytest.mark.parametrize("value", ["(" * 2000 + "ms" + ")" * 2000, "+".join(["ms"] * 20_000)])
def test_should_refuse_what_is_too_deep(value: str) -> None:
    assert "too many" in refused(f"INSERT INTO out1 SELECT page, {value} FROM clicks").what
