"""ARRAY_AGG of values, conditions and nulls, against DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

ROWS = [
    {"k": k, "x": x, "a": a, "b": b}
    for k in (1, 2)
    for x, a, b in [(3, True, None), (None, None, False), (1, False, True), (3, True, True), (2, None, None)]
] + [{"k": 3, "x": None, "a": None, "b": None}]
# What is collected, and the same for DuckDB.
ARRAYS = {
    "values": ("ARRAY<INT>", "ARRAY_AGG(x)", "list(x)"),
    "sums": ("ARRAY<INT>", "ARRAY_AGG(x + k)", "list(x + k)"),
    "conditions": ("ARRAY<BOOLEAN>", "ARRAY_AGG(a AND b)", "list(a AND b)"),
    "negated": ("ARRAY<BOOLEAN>", "ARRAY_AGG(NOT a IGNORE NULLS)", "list(NOT a) FILTER (WHERE (NOT a) IS NOT NULL)"),
    "either": (
        "ARRAY<BOOLEAN>",
        "ARRAY_AGG(b OR a IGNORE NULLS)",
        "list(b OR a) FILTER (WHERE (b OR a) IS NOT NULL)",
    ),
    "some": ("ARRAY<INT>", "ARRAY_AGG(x) FILTER (WHERE a OR b)", "list(x) FILTER (WHERE a OR b)"),
    "some_known": (
        "ARRAY<INT>",
        "ARRAY_AGG(x IGNORE NULLS) FILTER (WHERE k = 1 OR x > 2)",
        "list(x) FILTER (WHERE x IS NOT NULL AND (k = 1 OR x > 2))",
    ),
    "different": ("ARRAY<INT>", "ARRAY_AGG(DISTINCT x)", "list(DISTINCT x)"),
    "all_of_them": ("ARRAY<INT>", "ARRAY_AGG(x RESPECT NULLS)", "list(x)"),
}


def test_array_agg_has_the_values_in_their_order_and_then_nulls(driver: SparkDriver) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in ARRAYS.items())
    collected = ", ".join(here for _, here, _ in ARRAYS.values())
    text = f"""
        CREATE TABLE t (k INT, x INT, a BOOLEAN, b BOOLEAN) WITH ('connector' = 'memory');
        CREATE TABLE o (k INT, {columns}) WITH ('connector' = 'print');
        INSERT INTO o SELECT k, {collected} FROM t GROUP BY k"""
    found = dict[int, Any]()
    with PipelineDriver(pipeline_from_sql(text, tables={"t": []}), spark=driver) as running:
        for batch in (ROWS[:4], ROWS[4:7], ROWS[7:]):
            running.push(batch, "t")
            running.step()
            found |= {row["k"]: [row[name] for name in ARRAYS] for row in running.take("o")}
    with duckdb.connect() as db:
        db.execute("CREATE TABLE t (k INT, x INT, a BOOLEAN, b BOOLEAN)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [[*row.values()] for row in ROWS])
        sorted_lists = ", ".join(f"list_sort({there}, 'ASC', 'NULLS LAST')" for _, _, there in ARRAYS.values())
        wanted = {row[0]: [*row[1:]] for row in db.execute(f"SELECT k, {sorted_lists} FROM t GROUP BY k").fetchall()}
    assert found == wanted
