"""Sub-queries in WHERE, UNION and rows taken apart, against DuckDB and plain Python over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pandas as pd
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver

BEGIN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TABLES = """
    CREATE TABLE clicks (n INT, page STRING, ms BIGINT, ts TIMESTAMP(3),
        WATERMARK FOR ts AS ts - INTERVAL '60' SECOND) WITH ('connector' = 'memory');
    CREATE TABLE views (page STRING, k BIGINT, seen TIMESTAMP(3),
        WATERMARK FOR seen AS seen - INTERVAL '60' SECOND) WITH ('connector' = 'memory');
    CREATE TABLE lists (n INT, tags ARRAY<STRING>, pairs MAP<STRING, STRING>, people ARRAY<ROW<id BIGINT, name STRING>>)
        WITH ('connector' = 'memory');
"""
NEAR = "seen BETWEEN ts - INTERVAL '4' SECOND AND ts + INTERVAL '6' SECOND"
# Queries that mean the same here and in DuckDB, each of rows of `clicks`, which `n` tells apart.
V = "FROM views AS v WHERE v.page = clicks.page"
QUERIES = {
    "semi": f"EXISTS (SELECT 1 {V} AND {NEAR})",
    "among": f"page IN (SELECT page FROM views WHERE k > 2 AND {NEAR}) AND ms > 1",
    "beside": f"""ms >= 1 AND NOT (page IS NULL)
        AND page NOT IN (SELECT v.page FROM views AS v WHERE page IS NOT NULL AND k = ms AND {NEAR})""",
    "left_only": f"NOT EXISTS (SELECT 1 {V} AND clicks.ms > 2 AND {NEAR})",
    "itself": """ms IN (SELECT c.ms FROM clicks AS c
        WHERE c.n <> clicks.n AND c.ts BETWEEN clicks.ts AND clicks.ts + INTERVAL '5' SECOND)""",
}

COUNTED = f"""
    CREATE TABLE counts (page STRING, n BIGINT) WITH ('connector' = 'print');
    CREATE VIEW kept AS SELECT * FROM clicks WHERE {QUERIES["semi"]};
    INSERT INTO counts SELECT page, COUNT(*) FROM TABLE(TUMBLE(TABLE kept, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY page, window_start, window_end;
"""


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


DRAWN = random.Random(1)
PAGES = ["a", "b", "", None, "A"]
CLICKS = [
    {"n": n, "page": DRAWN.choice(PAGES), "ms": DRAWN.choice([*range(5), None]), "ts": at(DRAWN.randrange(40))}
    for n in range(40)
]
VIEWS = [
    {"page": DRAWN.choice(PAGES), "k": DRAWN.choice([*range(5), None]), "seen": at(DRAWN.randrange(40))}
    for _ in range(25)
]
# (n, tags, pairs, people)
LISTS = [
    (1, ["a", "b", "a"], {"x": "1", "y": None, "s": "p-q--p"}, [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]),
    (2, [], {}, []),
    (3, None, None, None),
    (4, [None, ""], {"": "7"}, [None]),
]
APART = """
    CREATE TABLE each_tag (n INT, tag STRING) WITH ('connector' = 'print');
    CREATE TABLE or_none (n INT, tag STRING, place INT) WITH ('connector' = 'print');
    CREATE TABLE each_pair (n INT, k STRING, v STRING) WITH ('connector' = 'print');
    CREATE TABLE named (n INT, id BIGINT, name STRING) WITH ('connector' = 'print');
    CREATE TABLE words (n INT, word STRING) WITH ('connector' = 'print');
    CREATE TABLE both_lists (n INT, tag STRING, id BIGINT) WITH ('connector' = 'print');
    INSERT INTO each_tag SELECT n, tag FROM lists CROSS JOIN UNNEST(tags) AS t (tag) WHERE n < 4 OR tag IS NULL;
    INSERT INTO or_none SELECT n, t.tag, t.place FROM lists
        LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, place) ON TRUE;
    INSERT INTO each_pair SELECT n, k, v FROM lists, UNNEST(pairs) AS t (k, v);
    INSERT INTO named SELECT n, p.id, p.name FROM lists LEFT JOIN UNNEST(people) AS p ON TRUE;
    INSERT INTO words SELECT n, word FROM lists, LATERAL TABLE(STRING_SPLIT(pairs['s'], '-')) AS w (word);
    INSERT INTO both_lists SELECT n, tag, id FROM lists CROSS JOIN UNNEST(tags) AS t (tag)
        JOIN UNNEST(people) AS p ON p.id > 1;
"""
UNITED = """
    CREATE TABLE pages (page STRING, m BIGINT) WITH ('connector' = 'print');
    INSERT INTO pages SELECT page, ms FROM clicks UNION SELECT page, k FROM views
        UNION (SELECT NULL, n FROM lists WHERE n > 2);
"""
AGAIN = """
    CREATE TABLE again (page STRING, m BIGINT) WITH ('connector' = 'print');
    CREATE VIEW seen_pages AS SELECT page, k FROM views WHERE k > 1 UNION ALL SELECT page, ms FROM clicks WHERE ms > 2;
    INSERT INTO again SELECT page, ms FROM clicks UNION ALL SELECT page, k + 1 FROM seen_pages
        UNION ALL SELECT NULL, n FROM lists UNION ALL SELECT page, n FROM clicks UNION ALL SELECT 'v', k FROM views;
"""


@pytest.fixture(scope="module")
def found(driver: SparkDriver) -> Mapping[str, Any]:
    """What all statements give, of one run."""
    kept = "".join(
        f"CREATE TABLE {name} (n INT) WITH ('connector' = 'print');"
        f"INSERT INTO {name} SELECT n FROM clicks WHERE {where};"
        for name, where in QUERIES.items()
    )
    rows = {"clicks": CLICKS, "views": VIEWS}
    rows["lists"] = [dict(zip(("n", "tags", "pairs", "people"), row, strict=True)) for row in LISTS]
    pipeline = pipeline_from_sql(TABLES + kept + COUNTED + APART + UNITED + AGAIN, tables={name: [] for name in rows})
    given = {source.name: rows[source.name.partition("_")[0]] for source in pipeline.topology.origins}
    return pipeline.try_(given, spark=driver)


def test_should_keep_the_rows_that_duckdb_keeps(found: Mapping[str, Any]) -> None:
    """Nulls, empty texts and rows that are equal among them; `clicks` stand beside themselves once."""
    with duckdb.connect() as duck:
        for name, rows in (("clicks", CLICKS), ("views", VIEWS)):
            duck.register(name, pd.DataFrame(rows).convert_dtypes())
        for name, where in QUERIES.items():
            expected = duck.sql(f"SELECT n FROM clicks WHERE {where} ORDER BY n").fetchall()
            assert sorted(row["n"] for row in found[name]) == [n for (n,) in expected], (name, where)


def test_should_take_arrays_and_maps_apart(found: Mapping[str, Any]) -> None:
    tags = [(n, tag) for n, tags, _, _ in LISTS for tag in tags or []]
    assert values(found["each_tag"]) == ordered((n, tag) for n, tag in tags if n < 4 or tag is None)
    places = [(n, tag, place) for n, tags, _, _ in LISTS for place, tag in enumerate(tags or [], 1)]
    assert values(found["or_none"]) == ordered([*places, (2, None, None), (3, None, None)])
    pairs = [(n, *pair) for n, _, pairs, _ in LISTS for pair in (pairs or {}).items()]
    assert values(found["each_pair"]) == ordered(pairs)
    people = [(n, each) for n, *_, people in LISTS for each in people or [None]]
    assert values(found["named"]) == ordered((n, *(each or {"id": None, "name": None}).values()) for n, each in people)
    assert values(found["words"]) == [(1, "p"), (1, "p"), (1, "q")]
    assert values(found["both_lists"]) == [(1, "a", 2), (1, "a", 2), (1, "b", 2)]


def values(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return ordered(tuple(row.values()) for row in rows)


def ordered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def test_should_unite_different_rows_once(found: Mapping[str, Any]) -> None:
    """Of rows that are equal, nulls among them, on one side or on both."""
    every = [(row["page"], row["ms"]) for row in CLICKS] + [(row["page"], row["k"]) for row in VIEWS]
    every += [(None, row[0]) for row in LISTS if row[0] > 2]
    assert len(every) > len(set(every)) + 20
    assert values(found["pages"]) == ordered(set(every))


def test_should_unite_sources_with_themselves_and_others_between(found: Mapping[str, Any]) -> None:
    every = [pair for row in CLICKS for pair in ((row["page"], row["ms"]), (row["page"], row["n"]))]
    every += [(row["page"], row["ms"] + 1) for row in CLICKS if row["ms"] is not None and row["ms"] > 2]
    every += [(row["page"], row["k"] + 1) for row in VIEWS if row["k"] is not None and row["k"] > 1]
    every += [("v", row["k"]) for row in VIEWS] + [(None, row[0]) for row in LISTS]
    assert values(found["again"]) == ordered(every)


def test_should_group_the_rows_that_a_sub_query_keeps(found: Mapping[str, Any]) -> None:
    """In one query, where Spark's own semi join is refused."""
    among = {row["n"] for row in found["semi"]}
    counted = Counter((row["page"], row["ts"].second // 10) for row in CLICKS if row["n"] in among)
    assert values(found["counts"]) == ordered((page, n) for (page, _), n in counted.items())
