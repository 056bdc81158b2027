"""A table that is called like a column of the other one, against DuckDB: the table comes first."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

LEFT = "id BIGINT, k BIGINT, owner STRING, r {}"
RIGHT = "k BIGINT, owner_name STRING, r {}, v BIGINT"
ROWS = {
    "l": [{"id": n, "k": n, "owner": "ab"[n % 2], "r": {"k": 7 - n, "r_id": n % 3}} for n in range(8)],
    "r": [{"k": n, "owner_name": "bc"[n % 2], "r": {"k": n, "r_id": n % 3}, "v": 10 * n} for n in range(8)],
}
JOINS = {
    "a column, not a part of another one": "SELECT l.id, r.v FROM l JOIN r ON l.k = r.k",
    "a column of its own name": "SELECT l.id, r.v FROM l JOIN r ON l.r = r.r",
    "a part of it": "SELECT l.id, r.v FROM l JOIN r ON l.r.r_id = r.r.r_id AND l.k = r.k",
    "the beginning of a column": "SELECT l.id, owner.v FROM l JOIN r AS owner ON l.owner = owner.owner_name",
    "a condition on one side": "SELECT l.id, owner.v FROM l JOIN r AS owner ON l.k = owner.k AND owner.v > 30",
}


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in JOINS.items()])
def test_the_table_comes_before_a_column_of_its_name(query: str, driver: SparkDriver) -> None:
    files = "WITH ('connector' = 'filesystem', 'path' = '/in/{}', 'format' = 'json', 'follow' = 'true');"
    made = [
        f"CREATE TABLE {name} ({form.format('ROW<k BIGINT, r_id BIGINT>')}) {files.format(name)}"
        for name, form in (("l", LEFT), ("r", RIGHT))
    ]
    made += ["CREATE TABLE o (id BIGINT, v BIGINT) WITH ('connector' = 'print');", f"INSERT INTO o {query}"]
    with PipelineDriver(pipeline_from_sql("\n".join(made)), spark=driver) as running:
        for name, rows in ROWS.items():
            running.push(rows, name)
        running.step()
        found = Counter((row["id"], row["v"]) for row in running.take("o"))
    with duckdb.connect() as db:
        for (name, rows), form in zip(ROWS.items(), (LEFT, RIGHT), strict=True):
            db.execute(f"CREATE TABLE {name} ({form.format('STRUCT(k BIGINT, r_id BIGINT)')})")
            db.executemany(
                f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", [[*row.values()] for row in rows]
            )
        wanted = Counter(db.execute(query).fetchall())
    assert found == wanted
    assert wanted
