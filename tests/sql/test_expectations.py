"""Constraints of tables: EXPECT, and NOT NULL of the columns of a sink, against what plain Python says of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from rs_assets import pipeline_from_sql
from rs_assets.errors import BadRecordError, SqlError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport

ROWS: list[dict[str, Any]] = [
    {"page": "/a", "ms": 5},
    {"page": None, "ms": 7},
    {"page": "/b", "ms": -1},
    {"page": "/c", "ms": None},
]


def run(options: RunOptions, folder: Path, text: str) -> tuple[RunReport, list[dict[str, Any]]]:
    """The report of a program over ROWS as `clicks.jsonl`, and the rows of its sink `copy`."""
    (folder / "clicks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    report = pipeline_from_sql(text.replace("clicks.jsonl", str(folder / "clicks.jsonl")), job="copy").run(options)
    rows = DeltaTable(options.home.table("sql", "copy")).to_pyarrow_table().to_pylist()
    return report, sorted(rows, key=str)


def program(
    *, source: str = "", sink: str = "page STRING, ms BIGINT", query: str = "page, ms", before: str = ""
) -> str:
    return f"""
        {before}
        CREATE TABLE clicks (page STRING, ms BIGINT{source})
            WITH ('connector' = 'filesystem', 'path' = 'clicks.jsonl', 'format' = 'json');
        CREATE TABLE copy ({sink}) WITH ('connector' = 'delta', 'table' = 'copy');
        INSERT INTO copy SELECT {query} FROM clicks;
    """


def kept(*names: str) -> list[dict[str, Any]]:
    return sorted((row for row in ROWS if row["page"] in names), key=str)


@pytest.mark.canary
def test_an_expectation_of_a_source_counts_its_rows_and_leaves_out_others(options: RunOptions, tmp_path: Path) -> None:
    source = """, late AS ms > 6,
        CONSTRAINT has_page EXPECT (page IS NOT NULL),
        CONSTRAINT took_time EXPECT (ms >= 0) ON VIOLATION DROP ROW"""
    report, rows = run(options, tmp_path, program(source=source))
    assert rows == sorted((row for row in ROWS if row["ms"] is not None and row["ms"] >= 0), key=str)
    assert report.expectations == {"clicks_has_page": (4, 1), "clicks_took_time": (4, 2)}


@pytest.mark.long
def test_an_expectation_of_a_sink_judges_its_columns(options: RunOptions, tmp_path: Path) -> None:
    sink = "path STRING, twice BIGINT, CONSTRAINT small EXPECT (twice < 12 AND path <> '/z') ON VIOLATION DROP ROW"
    report, rows = run(options, tmp_path, program(sink=sink, query="page, ms * 2"))
    assert rows == [{"path": "/a", "twice": 10}, {"path": "/b", "twice": -2}]
    assert report.expectations == {"copy_small": (4, 2)}


@pytest.mark.long
def test_fail_update_ends_the_run_before_its_batch_is_committed(options: RunOptions, tmp_path: Path) -> None:
    source = ", CONSTRAINT took_time EXPECT (ms >= 0) ON VIOLATION FAIL UPDATE"
    with pytest.raises(BadRecordError, match="ms"):
        run(options, tmp_path, program(source=source))
    assert not list(Path(options.home.table("sql", "copy")).rglob("*.parquet"))


def test_a_null_in_a_column_that_is_not_null_ends_the_run_as_in_flink(options: RunOptions, tmp_path: Path) -> None:
    with pytest.raises(BadRecordError, match="`page` IS NOT NULL"):
        run(options, tmp_path, program(sink="page STRING NOT NULL, ms BIGINT"))


@pytest.mark.long
def test_rows_with_such_a_null_may_be_left_out(options: RunOptions, tmp_path: Path) -> None:
    before = "SET 'table.exec.sink.not-null-enforcer' = 'DROP';"
    report, rows = run(options, tmp_path, program(sink="page STRING NOT NULL, ms BIGINT NOT NULL", before=before))
    assert (rows, report.expectations) == (kept("/a", "/b"), {"copy_not_null": (4, 2)})


@pytest.mark.long
def test_a_column_of_a_source_that_is_not_null_promises_as_in_flink(options: RunOptions, tmp_path: Path) -> None:
    text = program().replace(
        "page STRING, ms BIGINT)\n            WITH ('connector' = 'filesystem'",
        "page STRING NOT NULL, ms BIGINT)\n            WITH ('connector' = 'filesystem'",
    )
    assert len(run(options, tmp_path, text)[1]) == len(ROWS)


@pytest.mark.long
def test_the_rows_of_a_table_that_changes_may_not_have_such_a_null(options: RunOptions, tmp_path: Path) -> None:
    text = """
        CREATE TABLE clicks (page STRING, ms BIGINT, PRIMARY KEY (ms) NOT ENFORCED) WITH ('connector' = 'filesystem',
            'path' = 'clicks.jsonl', 'format' = 'json', 'follow' = 'true', 'bad-records' = 'skip');
        CREATE TABLE copy (page STRING NOT NULL, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'copy');
        INSERT INTO copy SELECT page, ms FROM clicks;
    """
    with pytest.raises(BadRecordError, match="`page` IS NOT NULL"):
        run(options, tmp_path, text)
    left = "SET 'table.exec.sink.not-null-enforcer' = 'DROP';" + text
    assert run(options, tmp_path, left)[1] == kept("/a", "/b")


WRONG = [
    ("CONSTRAINT a EXPECT (ms)", "is a BIGINT, not true or false"),
    ("CONSTRAINT a EXPECT (nope > 1)", "nope"),
    ("CONSTRAINT a EXPECT (ms > 1) ON VIOLATION KEEP ROW", "is not what may happen to a row"),
    ("CONSTRAINT a EXPECT (ms > 1), CONSTRAINT A EXPECT (ms > 2)", "duplicate constraint 'A'"),
    ("CONSTRAINT a UNIQUE (ms)", "expected PRIMARY KEY"),
    ("CONSTRAINT a EXPECT (COUNT(*) > 1)", "COUNT"),
    ("CONSTRAINT a EXPECT ()", "a condition is missing"),
]


@pytest.mark.parametrize(("constraint", "what"), WRONG)
def test_a_constraint_that_cannot_be_is_refused_by_place(constraint: str, what: str) -> None:
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(program(source=f", {constraint}"), job="copy")


def test_an_expectation_of_rows_that_come_and_go_is_refused() -> None:
    text = program(source=", CONSTRAINT a EXPECT (ms > 1), PRIMARY KEY (page) NOT ENFORCED")
    with pytest.raises(SqlError, match="rows of 'clicks' come and go"):
        pipeline_from_sql(text.replace("'format' = 'json')", "'format' = 'json', 'follow' = 'true')", 1), job="copy")
