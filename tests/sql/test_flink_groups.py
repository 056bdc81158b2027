"""Aggregates and sessions with the values that Apache Flink 2.3 gives, of one table in one pipeline."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver

TABLES = """CREATE TABLE o (shop STRING, id INT, p DECIMAL(10, 2), f FLOAT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'memory');
CREATE TABLE averages (a STRING, b STRING, c STRING, d STRING) WITH ('connector' = 'print');
CREATE TABLE all_rows (s STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE by_shop (shop STRING, s STRING, n BIGINT) WITH ('connector' = 'print');
"""
SESSION = "TABLE(SESSION(TABLE o{}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
STATEMENTS = f"""
INSERT INTO averages SELECT CAST(AVG(id) AS STRING), CAST(AVG(p) AS STRING), CAST(SUM(p) / 3 AS STRING),
    CAST(AVG(f) AS STRING) FROM o GROUP BY TUMBLE(ts, INTERVAL '1' DAY);
INSERT INTO all_rows SELECT CAST(window_start AS STRING), COUNT(*) FROM {SESSION.format("")}
    GROUP BY window_start, window_end;
INSERT INTO by_shop SELECT shop, CAST(window_start AS STRING), COUNT(*) FROM {SESSION.format(" PARTITION BY (shop)")}
    GROUP BY shop, window_start, window_end;
"""


def row(shop: str, number: int, price: str, minute: int, second: int) -> dict[str, Any]:
    at = datetime(2026, 1, 5, 10, minute, second, tzinfo=UTC)
    return {"shop": shop, "id": number, "p": Decimal(price), "f": number / 2, "ts": at}


ROWS = [
    row("a", 1, "1.00", 0, 0),
    row("b", 2, "2.00", 0, 40),
    row("a", 3, "2.00", 1, 20),
    row("b", 4, "0.01", 2, 0),
    row("a", 5, "0.00", 10, 0),
]


def test_aggregates_and_sessions_have_the_values_of_flink(driver: SparkDriver) -> None:
    """AVG of DECIMAL(10, 2) has six digits, as SUM of it divided; a session without PARTITION BY is of all rows."""
    found = pipeline_from_sql(TABLES + STATEMENTS, tables={"o": []}).try_(ROWS, spark=driver)
    assert found["averages"] == [{"a": "3", "b": "1.002000", "c": "1.670000", "d": "1.5"}]
    day = "2026-01-05 10"
    assert [(each["s"], each["n"]) for each in found["all_rows"]] == [(f"{day}:00:00.000", 4), (f"{day}:10:00.000", 1)]
    shops = sorted((each["shop"], each["s"][11:19], each["n"]) for each in found["by_shop"])
    assert shops == [
        ("a", "10:00:00", 1),
        ("a", "10:01:20", 1),
        ("a", "10:10:00", 1),
        ("b", "10:00:40", 1),
        ("b", "10:02:00", 1),
    ]


@pytest.mark.parametrize(
    ("over", "keys", "remedy"),
    [
        ("", "shop, window_start", "write PARTITION BY shop after the table in SESSION"),
        (" PARTITION BY shop", "window_start", "add its columns of PARTITION BY to GROUP BY"),
        (" PARTITION BY shop", "id, shop, window_start", "write PARTITION BY id, shop after the table in SESSION"),
    ],
)
def test_sessions_by_other_columns_than_the_group_are_refused(over: str, keys: str, remedy: str) -> None:
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(
            f"{TABLES}INSERT INTO all_rows SELECT '', COUNT(*) FROM {SESSION.format(over)} GROUP BY {keys}, window_end",
            tables={"o": []},
        )
    assert error.value.remedy == remedy
