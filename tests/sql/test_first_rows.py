"""The first row of each key by event time, which is only appended, against plain Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
TABLES = """
    CREATE TABLE clicks (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3), tags MAP<STRING, STRING>, p AS PROCTIME(),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory');
    CREATE TABLE firsts (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3), rn BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '/data/firsts', 'format' = 'json');
"""
RANKED = """INSERT INTO firsts SELECT id, page, ms, ts, rn FROM (
    SELECT id, page, ms, ts, ROW_NUMBER() OVER (PARTITION BY id ORDER BY {order}) AS rn FROM clicks
) AS t WHERE {where}"""


def described(statement: str) -> str:
    return pipeline_from_sql(TABLES + statement, tables={"clicks": []}).describe()


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Earlier rows come first; of equal times the other columns decide, null before any value."""
    return (row["ts"], *((row[name] is not None, row[name]) for name in ("page", "ms")))


@pytest.mark.parametrize("seed", [1, 2])
def test_should_append_the_first_row_of_each_key_once(driver: SparkDriver, seed: int) -> None:
    """Rows of one minute in any order and any batches; then one row that passes them all, then duplicates of them."""
    drawn = random.Random(seed)
    pipeline = pipeline_from_sql(
        TABLES.replace("'5' SECOND", "'1' MINUTE") + RANKED.format(order="ts ASC", where="rn = 1"),
        tables={"clicks": []},
    )
    rows: list[dict[str, Any]] = [
        {
            "id": drawn.choice([1, 2, 3, None]),
            "page": drawn.choice(["a", "b", None]),
            "ms": drawn.choice([None, 1, 2]),
            "ts": BEGIN + timedelta(seconds=drawn.randint(1, 9)),
        }
        for _ in range(30)
    ]
    found = list[dict[str, Any]]()
    with PipelineDriver(pipeline, spark=driver) as running:
        for at in range(0, 30, 10):
            running.push(rows[at : at + 10])
            running.step()
            assert running.take() == []  # an earlier row may still come
        running.push([{"id": 9, "page": "z", "ms": 0, "ts": BEGIN + timedelta(minutes=5)}])
        running.step()
        running.restart()
        running.push([{**row, "ts": BEGIN + timedelta(minutes=6)} for row in rows])
        running.step()
        found += running.take()
        running.finish()
        found += running.take()
    firsts = [min((row for row in rows if row["id"] == key), key=place) for key in {row["id"] for row in rows}]
    expected = [*firsts, {"id": 9, "page": "z", "ms": 0, "ts": BEGIN + timedelta(minutes=5)}]
    assert sorted(found, key=repr) == sorted(({**row, "rn": 1} for row in expected), key=repr)


@pytest.mark.parametrize("where", ["rn = 1", "1 = rn", "rn <= 1", "rn < 2", "rn = 1 AND ms > 3"])
def test_should_only_append_by_the_event_time(where: str) -> None:
    shown = described(RANKED.format(order="ts", where=where))
    assert "over all rows before each by id: rn" in shown
    assert "retracted" not in shown


@pytest.mark.parametrize(
    ("order", "where"), [("ts DESC", "rn = 1"), ("ts, page", "rn = 1"), ("ms", "rn = 1"), ("ts", "rn <= 2")]
)
def test_should_refuse_a_file_for_rows_that_are_replaced(order: str, where: str) -> None:
    with pytest.raises(SqlError, match="the query replaces rows"):
        described(RANKED.format(order=order, where=where))


@pytest.mark.parametrize("order", ["ts NULLS LAST", "ts ASC NULLS LAST"])
def test_should_refuse_an_order_of_nulls(order: str) -> None:
    with pytest.raises(SqlError, match="nulls are less than all values"):
        described(RANKED.format(order=order, where="rn = 1"))


@pytest.mark.parametrize(("order", "where"), [("ts", "rn = 1"), ("ts, id", "rn = 1"), ("ms", "rn <= 2")])
def test_should_refuse_a_map_which_cannot_order_equal_rows(order: str, where: str) -> None:
    """Before a start: equal rows are ordered by their other columns, and a map has no order."""
    statement = RANKED.format(order=order, where=where)
    with pytest.raises(SqlError, match="the column 'tags' is a MAP") as caught:
        described(statement.replace("SELECT id, page, ms, ts, ROW", "SELECT *, ROW"))
    assert "name the other columns" in str(caught.value)


def test_should_count_the_first_rows_in_windows_and_let_only_those_fire_early() -> None:
    """EMIT is about the windows: a first row is emitted once."""
    shown = described(
        "CREATE VIEW once AS SELECT * FROM (SELECT id, ts, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS rn"
        " FROM clicks) AS t WHERE rn = 1;"
        " CREATE TABLE n (n BIGINT, since TIMESTAMP(3)) WITH ('connector' = 'delta', 'table' = 'n');"
        " INSERT INTO n SELECT COUNT(*), window_start FROM"
        " TABLE(TUMBLE(TABLE once, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        " EMIT WITH DELAY '10' SECOND BEFORE WATERMARK"
    )
    assert shown.count("before 0:00:10") == 1
    assert "over all rows before each by id: rn, by a processor" in shown
    with pytest.raises(SqlError, match="EMIT needs a window"):
        described(RANKED.format(order="ts", where="rn = 1") + " EMIT WITH DELAY '10' SECOND BEFORE WATERMARK")
