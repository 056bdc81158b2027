"""Fields that Spark knows to be never null, or constant: their state has one schema, with and without control rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

AT = datetime(2026, 1, 5, tzinfo=UTC)
TABLES = """CREATE TABLE t (id INT, v BIGINT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'memory');"""
NUMBERED = """(SELECT {}, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS rn
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))) AS s WHERE rn <= 2"""
# The columns of each sink, its query, and its rows.
QUERIES: dict[str, tuple[str, str, list[tuple[Any, ...]]]] = {
    "grouped": (
        "k STRING, n BIGINT",
        "SELECT COALESCE(k, '?'), COUNT(*) FROM t GROUP BY COALESCE(k, '?'), TUMBLE(ts, INTERVAL '1' DAY)",
        [("?", 1), ("a", 1)],
    ),
    "ranked": (
        "k STRING, rn BIGINT",
        f"SELECT k2, rn FROM {NUMBERED.format('COALESCE(k, CHR(63)) AS k2')}",
        [("?", 2), ("a", 1)],
    ),
    "constant": (
        "k STRING, rn BIGINT",
        f"SELECT k2, rn FROM {NUMBERED.format('CHR(120) AS k2')}",
        [("x", 1), ("x", 2)],
    ),
    "over_all": (
        "k STRING, s BIGINT",
        """SELECT k2, SUM(v2) OVER (PARTITION BY k2 ORDER BY ts)
            FROM (SELECT COALESCE(k, '?') AS k2, COALESCE(v, 0) AS v2, ts FROM t) AS s""",
        [("?", 1), ("a", 0)],
    ),
}


def test_should_keep_the_schema_of_state_when_the_input_ends(driver: SparkDriver) -> None:
    text = TABLES + "".join(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print'); INSERT INTO {name} {query};"
        for name, (columns, query, _) in QUERIES.items()
    )
    rows = [{"id": 1, "v": 1, "k": None, "ts": AT}, {"id": 2, "v": None, "k": "a", "ts": AT}]
    found = pipeline_from_sql(text, tables={"t": []}).try_(rows, spark=driver)
    assert {name: sorted(tuple(row.values()) for row in found[name]) for name in QUERIES} == {
        name: wanted for name, (_, _, wanted) in QUERIES.items()
    }


UNITED = """SELECT k, v, ts FROM a UNION ALL SELECT CHR(120) AS k, COALESCE(v, 0) AS v, ts FROM {}"""
OF_UNIONS = {
    "grouped": ("n BIGINT, s BIGINT", "SELECT k, COUNT(*), SUM(v) FROM u GROUP BY k"),
    "windows": ("n BIGINT, s BIGINT", "SELECT k, COUNT(*), SUM(v) FROM u GROUP BY k, TUMBLE(ts, INTERVAL '1' DAY)"),
    "ranked": (
        "rn BIGINT",
        """SELECT k, rn FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v) AS rn
            FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '1' DAY))) AS s WHERE rn <= 2""",
    ),
}
OF_EACH = {
    "grouped": [(None, 1, None), ("c", 1, 2), ("x", 2, 2)],
    "windows": [(None, 1, None), ("c", 1, 2), ("x", 2, 2)],
    "ranked": [(None, 1), ("c", 1), ("x", 1), ("x", 2)],
}


@pytest.mark.long
@pytest.mark.parametrize("other", ["b", "a"], ids=["another source", "the same source"])
@pytest.mark.parametrize("first", "ab")
def test_should_keep_the_schema_of_state_whichever_branch_of_a_union_has_rows(
    driver: SparkDriver, first: str, other: str
) -> None:
    """A branch gives a constant, the other one nulls; each start has rows of one source alone."""
    columns = "k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    text = "".join(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'memory');" for name in "ab")
    text += f"CREATE VIEW u AS {UNITED.format(other)};"
    for name, (more, query) in OF_UNIONS.items():
        text += f"CREATE TABLE {name} (k STRING, {more}) WITH ('connector' = 'print'); INSERT INTO {name} {query};"
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in OF_UNIONS}
    with PipelineDriver(pipeline_from_sql(text, tables={"a": [], "b": []}), spark=driver) as running:
        for source in dict.fromkeys([first, *"ab"]) if other == "b" else "a":
            running.push([{"k": None, "v": None, "ts": AT}, {"k": "c", "v": 2, "ts": AT}], source)
            running.step()
            found["grouped"] += [tuple(row[n] for n in "kns") for row in running.take("grouped")]
            running.restart()
        running.finish()
        for name in ("windows", "ranked"):
            found[name] = [tuple(row.values()) for row in running.take(name)]
    for name, rows in found.items():
        assert sorted(rows, key=repr) == sorted(OF_EACH[name], key=repr)
