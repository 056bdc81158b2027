"""Nexmark's queries in SQL against DuckDB over the same files, as the fluent ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.in_sql import QUERIES, nexmark_in_sql
from rs_assets.pipeline.runtime.options import RunOptions
from tests.nexmark.reference import SQL, compare

SETTINGS = Settings(events=2_000, rate=100, files=1, disorder=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("events") / "nexmark", SETTINGS)


@pytest.mark.parametrize("query", [query for query in QUERIES if query in SQL])
def test_should_equal_duckdb(query: str, folder: Path, options: RunOptions) -> None:
    pipeline = nexmark_in_sql(query, folder, longest_auction=SETTINGS.longest_auction)
    report = pipeline.run(options, finish=True)
    assert (report.rows_late, report.rows_dead) == (0, 0)
    table = DeltaTable(options.home.table("nexmark_sql", query)).to_pyarrow_table()
    rows, lacking, surplus = compare(query, folder, table)
    assert rows > 0
    assert (lacking, surplus) == (0, 0)
