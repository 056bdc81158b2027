"""Statements that mean the same become the same steps, and conditions stand where they must."""

from __future__ import annotations

import pytest

from rs_assets import pipeline_from_sql
from tests.sql.test_wrong_statements import TABLES

RANKED = """INSERT INTO out1 SELECT page, rn FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ms DESC) AS rn FROM clicks) AS t WHERE """
BARE = "INSERT INTO out1 SELECT page, ms FROM clicks WHERE "
WINDOWS = """INSERT INTO out1 SELECT a.page, b.n FROM
    (SELECT page, window_start AS ws, window_end AS we, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY page, window_start, window_end) AS a
    JOIN (SELECT page, window_start AS ws, window_end AS we, MAX(n) AS n
        FROM TABLE(TUMBLE(TABLE views, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY page, window_start, window_end) AS b
    ON a.page = b.page AND """
SAME = [
    (RANKED, "rn <= 2", "rn <= 2 AND rn <= 4"),
    (RANKED, "rn <= 2", "rn <= 4 AND rn < 3"),
    (RANKED, "rn <= 2", "2 >= rn"),
    (RANKED, "rn < 2", "1 = rn"),
    (BARE, "ms BETWEEN SYMMETRIC (1) AND (2)", "(ms BETWEEN 1 AND 2 OR ms BETWEEN 2 AND 1)"),
    (BARE, "ms BETWEEN ASYMMETRIC (1) AND 2", "ms BETWEEN 1 AND 2"),
    (BARE, "page NOT LIKE ('a') ESCAPE '!'", "NOT page LIKE 'a' ESCAPE '!'"),
    (BARE, "ts > ts - INTERVAL -'1' DAY", "ts > ts - INTERVAL '-1' DAY"),
    (WINDOWS, "a.ws = b.ws", "a.we = b.we"),
    (WINDOWS, "a.ws = b.ws", "a.ws = b.ws AND a.we = b.we"),
    (WINDOWS, "a.ws = b.ws + INTERVAL '1' MINUTE", "a.we = b.we + INTERVAL '1' MINUTE"),
]


def steps(statement: str) -> str:
    return pipeline_from_sql(TABLES + statement).describe()


@pytest.mark.parametrize(("begin", "one", "other"), SAME, ids=[other for _, _, other in SAME])
def test_should_become_the_same_steps(begin: str, one: str, other: str) -> None:
    assert steps(begin + one) == steps(begin + other)


@pytest.mark.parametrize("side", ["RIGHT", "FULL"])
def test_should_filter_behind_a_join_that_keeps_rows_alone(side: str) -> None:
    """The rows of the last table that stay alone have no `ms`, so that WHERE drops them."""
    found = steps(
        f"""INSERT INTO out1 SELECT c.page, v.n FROM clicks AS c
        JOIN views AS p ON c.page = p.page AND p.at BETWEEN c.ts - INTERVAL '1' MINUTE AND c.ts + INTERVAL '1' MINUTE
        {side} JOIN views AS v ON v.page = c.page AND v.at BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE
        WHERE c.ms = 1"""
    ).splitlines()
    filters = [n for n, line in enumerate(found) if "filter <-" in line]
    joins = [n for n, line in enumerate(found) if "join <-" in line]
    assert len(joins) == 2
    assert filters[0] > joins[-1]


def test_should_name_the_rank_where_the_list_does() -> None:
    found = steps(
        """CREATE TABLE ranks (place INT, slow BIGINT) WITH ('connector' = 'print'); INSERT INTO ranks SELECT * FROM (
        SELECT ROW_NUMBER() OVER (PARTITION BY page ORDER BY ms) AS rn, ms FROM clicks) AS t WHERE rn <= 2"""
    )
    assert "`rn` AS `place`, `ms` AS `slow`" in found.replace("cast(`rn` AS int)", "`rn`")
