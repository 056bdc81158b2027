"""UNION ALL of rows that pass different states, which a query cannot have: against plain Python, with a restart."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.testing import PipelineDriver

START = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = [{"page": "ab"[n % 2], "ms": n, "ts": START + timedelta(seconds=7 * n)} for n in range(60)]
TABLES = """
CREATE TABLE clicks (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '20' SECOND)
    WITH ('connector' = 'filesystem', 'path' = '/data/clicks', 'format' = 'json');
CREATE TABLE sums (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW kept AS SELECT page, ms, ts FROM clicks WHERE ms > 3;
"""
WINDOW = """SELECT page, SUM(ms) AS n FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '{}' MINUTE))
    GROUP BY page, window_start, window_end"""


def sums(minutes: int, least: int = 0) -> Counter[tuple[str, int]]:
    def place(row):
        return row["page"], (row["ts"] - START) // timedelta(minutes=minutes)

    rows = sorted((row for row in ROWS if row["ms"] >= least), key=place)
    return Counter((page, sum(row["ms"] for row in of)) for (page, _), of in groupby(rows, place))


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        pytest.param(
            f"{WINDOW.format('clicks', 1)} UNION ALL {WINDOW.format('kept', 2)}",
            sums(1) + sums(2, 4),
            marks=pytest.mark.long,
        ),
        (
            f"SELECT page, n FROM (SELECT page, ms AS n FROM kept UNION ALL {WINDOW.format('clicks', 1)}) WHERE n > 9",
            Counter((row["page"], row["ms"]) for row in ROWS if row["ms"] > 9)
            + Counter({each: n for each, n in sums(1).items() if each[1] > 9}),
        ),
    ],
    ids=["two windows", "rows and a window"],
)
def test_rows_of_different_states_are_united_by_queries_of_their_own(driver, statement, rows):
    pipeline = pipeline_from_sql(f"{TABLES} INSERT INTO sums {statement}", job="unions")
    with PipelineDriver(pipeline, spark=driver) as running:
        for part in (ROWS[:25], ROWS[25:]):
            running.push(part)
            running.step()
            running.restart()
        running.finish()
        assert Counter((row["page"], row["n"]) for row in running.take()) == rows


def test_rows_that_passed_one_state_are_united_in_its_query():
    view = f"CREATE VIEW minutes AS {WINDOW.format('clicks', 1)};"
    united = "SELECT page, n FROM minutes WHERE n > 9 UNION ALL SELECT page, -n FROM minutes"
    assert "shuffle" not in pipeline_from_sql(f"{TABLES} {view} INSERT INTO sums {united}").describe()


def test_a_view_with_such_a_union_may_be_grouped_and_be_read_as_it_is():
    columns = "page, window_start, window_end, SUM(ms) AS n"
    window = WINDOW.replace("page, SUM(ms) AS n", columns).format("clicks", 1)
    view = f"CREATE VIEW both AS {window} UNION ALL {window.replace('SUM', 'MAX')};"
    by_page = "CREATE TABLE pages (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED)"
    into = f"{TABLES} {view} {by_page} WITH ('connector' = 'delta', 'table' = 'pages');"
    grouped = "INSERT INTO pages SELECT page, SUM(n) FROM both GROUP BY page;"
    plain = "INSERT INTO sums SELECT page, n FROM both;"
    for statements in (grouped + plain, plain + grouped):
        made = pipeline_from_sql(f"{into} {statements}", job="views").describe()
        assert "sums_row" in made
        assert "pages_group" in made


UNITED = """SELECT page, SUM(ms) AS ms, window_time AS wt FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts),
    INTERVAL '{}' MINUTE)) GROUP BY page, window_start, window_end, window_time"""


def test_a_window_over_such_a_union_is_refused_because_one_query_may_lag():
    """Its rows would be late. Written to a table, a file of its own decides how long it waits for them."""
    both = f"{UNITED.format(1)} UNION ALL {UNITED.format(2)}"
    ten = "SELECT page, SUM(ms) AS n FROM TABLE(TUMBLE(({}), DESCRIPTOR(wt), INTERVAL '10' MINUTE))"
    statement = f"{ten.format(both)} GROUP BY page, window_start, window_end"
    for more in ("", " UNION ALL SELECT page, ms AS n FROM kept"):
        with pytest.raises(SqlError, match="on different paths") as refused:
            pipeline_from_sql(f"{TABLES} INSERT INTO sums {statement}{more}", job="lagging")
        assert "write the rows of each side to one table in Delta, by an INSERT each" in refused.value.remedy
    parts = (
        "CREATE TABLE parts (page STRING, ms BIGINT, wt TIMESTAMP(3){}) WITH ('connector' = 'delta', 'table' = 'p');"
    )
    inserts = "".join(f"INSERT INTO parts {UNITED.format(minutes)};" for minutes in (1, 2))
    assert pipeline_from_sql(f"{TABLES} {parts.format('')} {inserts}", job="parts")
    marked = parts.format(", WATERMARK FOR wt AS wt - INTERVAL '5' MINUTE")
    read = statement.replace(f"({both})", "TABLE parts")
    assert pipeline_from_sql(f"{TABLES} {marked} INSERT INTO sums {read}", job="lagging")
