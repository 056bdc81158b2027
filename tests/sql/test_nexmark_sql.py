"""Nexmark's queries in SQL against DuckDB over the same files, as the fluent ones; several are one pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.in_sql import QUERIES, TABLES, nexmark_in_sql
from rs_assets import pipeline_from_sql
from rs_assets.runtime.options import RunOptions
from tests.nexmark.reference import SQL, compare

SETTINGS = Settings(events=2_000, rate=100, files=1, disorder=20)
# Queries of one pipeline; those of the first group share one query of Spark.
TOGETHER = ("q0 q1 q2 q10 q13 q14 q21 q22", "q15 q16 q17 q18 q19", "q3 q20", "q8 q11", "q4", "q5", "q7", "q9")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("events") / "nexmark", SETTINGS)


@pytest.mark.parametrize("queries", TOGETHER)
def test_should_equal_duckdb(queries: str, folder: Path, options: RunOptions) -> None:
    pipeline = nexmark_in_sql(*queries.split(), folder=folder, longest_auction=SETTINGS.longest_auction)
    report = pipeline.run(options, finish=True)
    assert (report.rows_late, report.rows_dead) == (0, 0)
    for query in queries.split():
        table = DeltaTable(options.home.table("nexmark_sql", query)).to_pyarrow_table()
        rows, lacking, surplus = compare(query, folder, table)
        assert rows > 0, query
        assert (lacking, surplus) == (0, 0), query


# q4 as it is published: an average of highest bids, of which each may still grow.
PUBLISHED_Q4 = """
    CREATE TABLE q4 (category BIGINT, final BIGINT) WITH ('connector' = 'delta', 'table' = 'q4');
    INSERT INTO q4 SELECT q.category, AVG(q.final) FROM (
        SELECT MAX(b.price) AS final, a.category FROM auctions AS a JOIN bids AS b ON a.id = b.auction
        WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) AS q
    GROUP BY q.category;
"""


def test_should_average_bids_that_still_grow(folder: Path, options: RunOptions) -> None:
    text = TABLES.read_text(encoding="utf-8") + PUBLISHED_Q4
    pipeline = pipeline_from_sql(text, job="published_q4", variables={"NEXMARK": str(folder)})
    pipeline.run(options)
    table = DeltaTable(options.home.table("sql", "q4")).to_pyarrow_table()
    rows, lacking, surplus = compare("q4", folder, table)
    assert rows > 0
    assert (lacking, surplus) == (0, 0)


# The shape of q6: an average over the last ten auctions of a seller, of which each price may still grow.
LAST_TEN = """
    CREATE TABLE last_ten (seller BIGINT, price BIGINT) WITH ('connector' = 'delta', 'table' = 'last_ten');
    INSERT INTO last_ten SELECT t.seller, AVG(t.final) FROM (
        SELECT q.seller, q.final, ROW_NUMBER() OVER (PARTITION BY q.seller ORDER BY q.ends DESC, q.id DESC) AS rn FROM (
            SELECT a.id, a.seller, MAX(b.price) AS final, MAX(a.expires) AS ends
            FROM auctions AS a JOIN bids AS b ON a.id = b.auction
            WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.seller) AS q) AS t
    WHERE t.rn <= 10 GROUP BY t.seller;
"""
BY_DUCKDB = """
    WITH q AS (
        SELECT a.id, a.seller, max(b.price) AS final, max(a.expires) AS ends FROM auctions a JOIN bids b
        ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.seller
        QUALIFY row_number() OVER (PARTITION BY a.seller ORDER BY max(a.expires) DESC, a.id DESC) <= 10
    )
    SELECT seller, sum(final)::bigint // count(*) AS price FROM q GROUP BY seller
"""


@pytest.mark.long
def test_should_average_the_last_ten_of_prices_that_still_grow(
    folder: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SQL, "last_ten", BY_DUCKDB)
    text = TABLES.read_text(encoding="utf-8") + LAST_TEN
    pipeline_from_sql(text, job="last_ten", variables={"NEXMARK": str(folder)}).run(options)
    table = DeltaTable(options.home.table("sql", "last_ten")).to_pyarrow_table()
    rows, lacking, surplus = compare("last_ten", folder, table)
    assert rows > 0
    assert (lacking, surplus) == (0, 0)


def test_should_have_all_queries_but_one() -> None:
    assert set(SQL) - set(QUERIES) == {"q6"}
    assert {query for together in TOGETHER for query in together.split()} == set(QUERIES) - {"q12"}


def test_should_count_arrivals_by_the_clock(folder: Path) -> None:
    window = nexmark_in_sql("q12", folder=folder).topology["q12_group"]
    assert (window.event_time, window.group_by) == (None, ("bidder",))
