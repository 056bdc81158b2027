"""Aggregates and sessions with the values that Apache Flink 2.3 gives, of one table in one pipeline."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
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


def test_aggregates_of_different_values_equal_duckdb(driver: SparkDriver) -> None:
    """SUM and AVG of DISTINCT values, filtered too, of all kinds of numbers, with nulls and a group without any."""
    kinds = {"a": "INT", "p": "DECIMAL(10, 2)", "d": "DOUBLE"}
    chance = random.Random(5)
    rows = [
        {
            "shop": chance.choice("xyz"),
            "a": chance.choice([None, *range(4)]),
            "p": chance.choice([None, Decimal("0.50"), Decimal("-2.25"), Decimal("3.00")]),
            "d": chance.choice([None, 0.25, -0.5, 8.0]),
        }
        for _ in range(60)
    ] + [{"shop": "none", "a": None, "p": None, "d": None}]
    sums = [f"CAST(SUM(DISTINCT {name}) AS DOUBLE) AS s_{name}" for name in kinds]
    means = [f"CAST(AVG(DISTINCT {name}) * 12 AS BIGINT) AS m_{name}" for name in ("p", "d")]
    some = "CAST(SUM(DISTINCT a) FILTER (WHERE d > 0) AS DOUBLE) AS f_a"
    query = f"SELECT shop, {', '.join([*sums, *means, some])} FROM t GROUP BY shop"
    columns = "s_a DOUBLE, s_p DOUBLE, s_d DOUBLE, m_p BIGINT, m_d BIGINT, f_a DOUBLE"
    made = f"""CREATE TABLE t (shop STRING, {", ".join(f"{name} {kind}" for name, kind in kinds.items())})
        WITH ('connector' = 'memory');
        CREATE TABLE flink (shop STRING, {columns}) WITH ('connector' = 'delta', 'table' = 'flink');
        INSERT INTO flink {query};"""
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE t (shop TEXT, {', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [tuple(row.values()) for row in rows])
        wanted = {row[0]: row[1:] for row in db.execute(query).fetchall()}
    (found,) = pipeline_from_sql(made, tables={"t": []}).try_(rows, spark=driver).values()
    assert {row["shop"]: tuple(row.values())[1:] for row in found} == wanted


def test_the_mean_of_different_whole_numbers_is_a_whole_number(driver: SparkDriver) -> None:
    text = """CREATE TABLE t (a INT) WITH ('connector' = 'memory');
        CREATE TABLE m (k STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'table' = 'm');
        INSERT INTO m SELECT 'all', AVG(DISTINCT a) FROM t GROUP BY 'all';"""
    rows = [{"a": n} for n in (1, 1, 1, 2, None)]
    assert pipeline_from_sql(text, tables={"t": []}).try_(rows, spark=driver) == {"m": [{"k": "all", "n": 1}]}


@pytest.mark.parametrize(
    ("keyed", "key", "aggregates"),
    [
        (True, "m_n", "AVG(ms) AS m"),
        (True, "total_of", "AVG(ms) AS m, COUNT(*) AS m_n"),
        (True, "total_of", "SUM(ms) AS total"),
        (False, "total_of", "SUM(ms) AS total"),
        (False, "total_of", "COUNT(DISTINCT ms + 1) AS total"),
    ],
)
def test_columns_may_have_the_names_of_fields_of_aggregates(keyed: bool, key: str, aggregates: str) -> None:
    table = ", PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'memory', 'order-by' = 'id');"
    columns = ", ".join(f"{name} BIGINT" for name in ("k", "a", "b")[: 2 + aggregates.count(" AS ") - 1])
    described = pipeline_from_sql(
        f"""CREATE TABLE t (id BIGINT, m_n BIGINT, total_of BIGINT, ms BIGINT
            {table if keyed else ") WITH ('connector' = 'memory');"}
            CREATE TABLE o ({columns}) WITH ('connector' = 'delta', 'table' = 'o');
            INSERT INTO o SELECT {key}, {aggregates} FROM t GROUP BY {key}""",
        tables={"t": []},
    ).describe()
    assert f"`{key}` AS `k`" in described
