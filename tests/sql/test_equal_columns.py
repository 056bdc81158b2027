"""Joins in which a column equals two columns of the other side, against DuckDB."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

ROWS = {
    "l": [{"id": n, "k": n % 4, "s": "xyz"[n % 3]} for n in range(12)],
    "r": [{"id": n, "a": n % 3, "b": n % 4, "s": "xy"[n % 2], "t": "xyz"[n % 3]} for n in range(12)],
    "p": [{"a": a, "b": b, "v": 10 * a + b} for a in range(4) for b in range(4)],
}
KINDS = {"id": "BIGINT", "k": "INT", "a": "INT", "b": "INT", "v": "INT", "s": "STRING", "t": "STRING"}
# The two sides of each form of join, and a second one with texts.
JOINS = {
    "of_streams": "SELECT l.id, r.id AS v FROM l JOIN r ON l.k = r.a AND l.k = r.b",
    "of_two_to_one": "SELECT l.id, r.id AS v FROM l JOIN r ON l.k = r.a AND l.id = r.a",
    "of_texts": "SELECT l.id, r.id AS v FROM l JOIN r ON l.s = r.s AND l.s = r.t",
    "of_tables": "SELECT m.id, p.v FROM m JOIN p ON m.k = p.a AND m.k = p.b",
    "left_of_tables": "SELECT m.id, p.v FROM m LEFT JOIN p ON m.k = p.b AND m.k = p.a",
    "current": "SELECT l.id, p.v FROM l LEFT JOIN p {} ON l.k = p.a AND l.k = p.b",
    "looked_up": "SELECT l.id, d.v FROM l LEFT JOIN d {} ON l.k = d.b AND l.k = d.a",
}


def columns(name: str) -> str:
    return ", ".join(f"{each} {KINDS[each]}" for each in ROWS[name][0])


def test_a_column_that_equals_two_must_equal_both(driver: SparkDriver, tmp_path: Path) -> None:
    """As published for Flink: of `deptno = num AND deptno = b3` only the second condition had an effect."""
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS["p"]), encoding="utf-8")
    files = "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', 'follow' = 'true');"
    made = [
        *(f"CREATE TABLE {name} ({columns(name)}) {files.format(f'/in/{name}')}" for name in ("l", "r")),
        f"CREATE TABLE m ({columns('l')}, PRIMARY KEY (id) NOT ENFORCED) {files.format('/in/m')}",
        f"CREATE TABLE p ({columns('p')}, PRIMARY KEY (a, b) NOT ENFORCED) {files.format('/in/p')}",
        f"CREATE TABLE d ({columns('p')}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');",
    ]
    for name, query in JOINS.items():
        made.append(f"CREATE TABLE {name} (id BIGINT, v BIGINT) WITH ('connector' = 'print');")
        made.append(f"INSERT INTO {name} {query.format('FOR SYSTEM_TIME AS OF PROCTIME()')};")
    pipeline = pipeline_from_sql("\n".join(made))
    with PipelineDriver(pipeline, spark=driver) as running:
        for source in pipeline.topology.sources:
            running.push(ROWS[{"m": "l"}.get(source.name[0], source.name[0])], source.name)
        running.step()
        found = {name: Counter((row["id"], row["v"]) for row in running.take(name)) for name in JOINS}
    with duckdb.connect() as db:
        for name, rows in ROWS.items():
            db.execute(f"CREATE TABLE {name} ({columns(name)})")
            places = ", ".join("?" * len(rows[0]))
            db.executemany(f"INSERT INTO {name} VALUES ({places})", [[*row.values()] for row in rows])
        db.execute("CREATE VIEW m AS FROM l; CREATE VIEW d AS FROM p")
        wanted = {name: Counter(db.execute(query.format("")).fetchall()) for name, query in JOINS.items()}
    assert found == wanted


@pytest.mark.parametrize("how", ["LEFT", "RIGHT", "FULL"])
def test_the_bounds_of_a_window_are_null_on_a_side_without_a_row(how: str, driver: SparkDriver) -> None:
    """Flink's `l.window_start` of a row of the right side alone is null."""
    tables = "".join(
        f"CREATE TABLE {name} (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'memory');"
        for name in ("l", "r")
    )
    window = "(SELECT * FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '5' SECOND))) AS {0}"
    text = f"""{tables}CREATE TABLE o (l INT, r INT, a STRING, b STRING, c STRING) WITH ('connector' = 'print');
        INSERT INTO o SELECT l.id, r.id, CAST(l.window_start AS STRING), CAST(r.window_end AS STRING),
            CAST(r.window_time AS STRING)
        FROM {window.format("l")} {how} JOIN {window.format("r")}
        ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end"""
    at = "2026-01-05 10:00:0{}"
    rows = {"l": [1, 2], "r": [2, 3]}
    given = {name: [{"id": n, "ts": at.format(n)} for n in ids] for name, ids in rows.items()}
    (found,) = pipeline_from_sql(text, tables={"l": [], "r": []}).try_(given, spark=driver).values()
    both = (2, 2, at.format("0.000"), at.format("5.000"), at.format("4.999"))
    left, right = (1, None, at.format("0.000"), None, None), (None, 3, None, at.format("5.000"), at.format("4.999"))
    wanted = {"LEFT": {both, left}, "RIGHT": {both, right}, "FULL": {both, left, right}}
    assert {tuple(row.values()) for row in found} == wanted[how]


@pytest.mark.parametrize("how", ["RIGHT", "FULL"])
def test_rows_of_the_right_side_alone_are_counted_by_a_group(how: str, driver: SparkDriver) -> None:
    """They have no event time of the left side."""
    tables = "".join(
        f"CREATE TABLE {name} (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)"
        " WITH ('connector' = 'memory');"
        for name in ("l", "r")
    )
    text = f"""{tables}CREATE TABLE o (id INT, n BIGINT) WITH ('connector' = 'delta', 'table' = 'o');
        INSERT INTO o SELECT r.id, COUNT(l.id) FROM l {how} JOIN r
        ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '5' MINUTE GROUP BY r.id"""
    rows = {"l": [1, 2, 2], "r": [2, 3]}
    given = {name: [{"id": n, "ts": f"2026-01-05 10:00:0{n}"} for n in ids] for name, ids in rows.items()}
    (found,) = pipeline_from_sql(text, tables={"l": [], "r": []}).try_(given, spark=driver).values()
    wanted = {2: 2, 3: 0} | ({None: 1} if how == "FULL" else {})
    assert {row["id"]: row["n"] for row in found} == wanted
