"""OVER against DuckDB over the same rows: out of order, of equal times, with nulls."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver

BEGIN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
CLICKS = """CREATE TABLE clicks (n INT, page STRING, ms BIGINT, price DECIMAL(8, 2), ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '60' SECOND) WITH ('connector' = 'memory');"""
BY_PAGE = "PARTITION BY page ORDER BY ts"
TEN = "RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW"
# Select lists behind `n`, which orders rows of one time: those of ROWS are asked of DuckDB in the order of ts and n.
LISTS = {
    "running": f"""page, SUM(ms) OVER ({BY_PAGE}) AS a, COUNT(*) OVER ({BY_PAGE}) AS b,
        COUNT(ms) OVER ({BY_PAGE}) AS c""",
    "ten": f"MIN(ms) OVER ({BY_PAGE} {TEN}) AS a, MAX(price) OVER ({BY_PAGE} {TEN}) AS b",
    "peers": """SUM(price) OVER (ORDER BY ts RANGE CURRENT ROW) AS a,
        COUNT(DISTINCT ms) OVER (ORDER BY ts RANGE CURRENT ROW) AS b""",
    "rows": """SUM(ms) OVER (PARTITION BY page ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) * 2 AS a,
        FIRST_VALUE(ms) OVER (PARTITION BY page ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS b,
        LAST_VALUE(price) OVER (PARTITION BY page ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS c,
        LAG(ms, 2, -1) OVER (PARTITION BY page ORDER BY ts) AS d""",
    "lags": """LAG(page) OVER (ORDER BY ts) AS a, ms - LAG(ms) OVER (ORDER BY ts) AS b,
        LAG(price, 3) OVER (ORDER BY ts) AS c""",
    "only": f"COUNT(*) FILTER (WHERE ms > 1) OVER ({BY_PAGE} ROWS UNBOUNDED PRECEDING) AS a, ms IS NULL AS b",
    "computed": "UPPER(page) AS a, MAX(ms + 1) OVER (PARTITION BY UPPER(page), ms > 2 ORDER BY ts) AS b",
}
WHERE = {"ten": "WHERE ms > 0", "lags": "WHERE page IS NOT NULL"}


def drawn(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Rows of few times, out of order by less than the water mark."""
    draw = random.Random(seed)
    return [
        {
            "n": n,
            "page": draw.choice(["a", "b", "B", "", None]),
            "ms": draw.choice([*range(5), None]),
            "price": draw.choice([None, *(Decimal(draw.randrange(900)) / 100 for _ in range(3))]),
            "ts": BEGIN + timedelta(seconds=draw.randrange(40), milliseconds=draw.choice([0, 0, 500])),
        }
        for n in range(count)
    ]


def columns(name: str) -> list[str]:
    return [letter for letter in "abcd" if f"AS {letter}" in LISTS[name]]


def query(name: str, *, duck: bool) -> str:
    listed = LISTS[name]
    if duck and (" ROWS " in listed or "LAG(" in listed):
        listed = listed.replace("ORDER BY ts", "ORDER BY ts, n")
    if duck:
        listed = re.sub(r"(FIRST|LAST)_VALUE\((\w+)\)", r"\1_VALUE(\2 IGNORE NULLS)", listed)
    return f"SELECT n, {', '.join(columns(name))} FROM (SELECT n, {listed} FROM clicks {WHERE.get(name, '')}) AS o"


@pytest.mark.parametrize("seed", [2])
def test_should_give_what_duckdb_gives(driver: SparkDriver, seed: int) -> None:
    rows = drawn(seed)
    text = CLICKS
    for name in LISTS:
        declared = ", ".join(f"{column} STRING" for column in columns(name))
        cast = ", ".join(f"CAST({column} AS STRING)" for column in columns(name))
        text += f"CREATE TABLE {name} (n INT, {declared}) WITH ('connector' = 'print');"
        text += f"INSERT INTO {name} SELECT n, {cast} FROM ({query(name, duck=False)}) AS q;"
    found = given(text, rows, driver)
    with duckdb.connect() as duck:
        duck.register("clicks", frame(rows))
        for name in LISTS:
            expected = [tuple(map(shown, row)) for row in duck.sql(query(name, duck=True)).fetchall()]
            made = [tuple(shown(row[key]) for key in ("n", *columns(name))) for row in found[name]]
            assert sorted(made, key=str) == sorted(expected, key=str), name


def test_should_go_on_into_windows_joins_and_other_overs(driver: SparkDriver) -> None:
    """What follows stands behind a durable shuffle."""
    rows = drawn(3)
    text = f"""{CLICKS}
        CREATE TABLE minutes (a BIGINT, b BIGINT) WITH ('connector' = 'print');
        CREATE TABLE twice (n INT, a BIGINT) WITH ('connector' = 'print');
        CREATE VIEW steps AS SELECT n, ts, ms - LAG(ms) OVER (PARTITION BY page ORDER BY ts) AS step FROM clicks;
        INSERT INTO minutes SELECT COUNT(*), SUM(step) FROM steps GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
        INSERT INTO twice SELECT n, SUM(step) OVER (ORDER BY ts) FROM steps WHERE step IS NOT NULL;
    """
    found = given(text, rows, driver)
    steps = "(SELECT n, ts, ms - LAG(ms) OVER (PARTITION BY page ORDER BY ts, n) AS step FROM clicks)"
    with duckdb.connect() as duck:
        duck.register("clicks", frame(rows))
        minutes = f"SELECT COUNT(*), SUM(step) FROM {steps} GROUP BY floor(epoch(ts) / 10)"
        twice = f"SELECT n, SUM(step) OVER (ORDER BY ts) FROM {steps} WHERE step IS NOT NULL"
        for name, sql in (("minutes", minutes), ("twice", twice)):
            expected = [tuple(map(shown, row)) for row in duck.sql(sql).fetchall()]
            made = [tuple(map(shown, row.values())) for row in found[name]]
            assert sorted(made, key=str) == sorted(expected, key=str), name


def given(text: str, rows: list[dict[str, Any]], driver: SparkDriver) -> Mapping[str, Any]:
    """What the statements give for `rows`, cast to the types of the table."""
    pipeline = pipeline_from_sql(text, tables={"clicks": []})
    return pipeline.try_({source.name: rows for source in pipeline.topology.origins}, spark=driver)


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    made = pd.DataFrame(rows).convert_dtypes()
    made["price"] = made["price"].astype("float64").astype("Float64")
    return made


def shown(value: Any) -> Any:
    """Numbers as numbers, whichever way they are written."""
    if value is None or isinstance(value, bool) or value in ("TRUE", "FALSE"):
        return value if value is None else str(value).lower()
    try:
        return round(float(value), 6)
    except ValueError:
        return str(value)
