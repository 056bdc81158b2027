"""Tables in SQL: rows of a PRIMARY KEY that change, and groups that are grouped again; DuckDB computes what must be."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import duckdb
import pytest
from deltalake import DeltaTable

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.testing import PipelineDriver
from tests.tables.model import Told

ORDERS = "id BIGINT, buyer STRING, ms BIGINT, ratio DOUBLE, price DECIMAL(8, 2), gone BOOLEAN"
PRICES = ("1.25", "-3.10", "7.00")
CLICKS = "page STRING, buyer STRING, ms BIGINT"
TABLES = f"""
    CREATE TABLE orders ({ORDERS}, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem',
        'path' = 'o.jsonl', 'format' = 'json', 'follow' = 'true', 'deletes' = 'gone');
    CREATE TABLE users (name STRING, tier STRING, PRIMARY KEY (name) NOT ENFORCED) WITH ('connector' = 'filesystem',
        'path' = 'u.jsonl', 'format' = 'json', 'follow' = 'true');
    CREATE TABLE clicks ({CLICKS}) WITH ('connector' = 'filesystem', 'path' = 'c.jsonl', 'format' = 'json',
        'follow' = 'true');
    CREATE TABLE shown ({{columns}}) WITH ('connector' = 'print');
"""


def told(driver, query, columns, batches):
    """What a query told after each of `batches`, dicts of rows by table; it starts again before the last."""
    pipeline = pipeline_from_sql(TABLES.format(columns=columns) + f"INSERT INTO shown {query}")
    found, sum_of = [], Told()
    with PipelineDriver(pipeline, spark=driver) as running:
        for number, batch in enumerate(batches):
            if number == len(batches) - 1:
                running.restart()
            for table, rows in batch.items():
                running.push(rows, table)
            running.step()
            sum_of.add(running.take())
            found.append(dict(sum_of.current))
    return found


def by_duckdb(query, columns, batches):
    """The rows of a query over the tables as they are after each batch."""
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE orders ({ORDERS.replace('STRING', 'TEXT')}, PRIMARY KEY (id))")
        db.execute("CREATE TABLE users (name TEXT PRIMARY KEY, tier TEXT)")
        db.execute(f"CREATE TABLE clicks ({CLICKS.replace('STRING', 'TEXT')})")
        names = [column.split()[0] for column in columns.split(", ")]
        found = []
        for batch in batches:
            for table, rows in batch.items():
                for row in rows:
                    put(db, table, row)
            rows = [dict(zip(names, row, strict=True)) for row in db.execute(query).fetchall()]
            sum_of = Told()
            sum_of.add([{**row, "retracted": False} for row in rows])
            found.append(dict(sum_of.current))
        return found


def put(db, table, row):
    if row.get("gone"):
        db.execute("DELETE FROM orders WHERE id = ?", [row["id"]])
        return
    places = ", ".join("?" * len(row))
    kind = "INSERT" if table == "clicks" else "INSERT OR REPLACE"
    db.execute(f"{kind} INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))


def history(seed, batches=3):
    rng = random.Random(seed)

    def order():
        row = {"id": rng.randrange(30), "buyer": None, "ms": None, "ratio": None, "price": None, "gone": True}
        if rng.random() < 0.8:
            row |= {"buyer": rng.choice(["ann", "bo", "cy", "", None]), "ms": rng.choice([None, *range(-3, 6)])}
            row |= {"ratio": rng.choice([0.5, -0.25, 4.0, None]), "price": rng.choice([None, *map(Decimal, PRICES)])}
            row |= {"gone": False}
        return row

    return [
        {
            "orders": [order() for _ in range(60)],
            "users": [
                {"name": rng.choice(["ann", "bo", "cy", "dee", ""]), "tier": rng.choice(["free", "paid", None])}
                for _ in range(4)
            ],
            "clicks": [
                {"page": rng.choice("abc"), "buyer": rng.choice(["ann", "bo", None]), "ms": rng.randrange(9)}
                for _ in range(20)
            ],
        }
        for _ in range(batches)
    ]


def only(batches, *tables):
    return [{name: rows for name, rows in batch.items() if name in tables} for batch in batches]


QUERIES = {
    "groups": (
        (
            "SELECT buyer, COUNT(*), COUNT(ms), SUM(ms), SUM(price), COUNT(*) FILTER (WHERE ms > 2) FROM orders"
            " GROUP BY buyer"
        ),
        "buyer STRING, n BIGINT, known BIGINT, total BIGINT, price DECIMAL(38,2), many BIGINT",
        ("orders",),
    ),
    "groups that keep rows": (
        (
            "SELECT buyer, MIN(ms), MAX(ratio), COUNT(DISTINCT ms), COUNT(*) AS n FROM orders GROUP BY buyer"
            " HAVING COUNT(*) > 2"
        ),
        "buyer STRING, least BIGINT, most DOUBLE, kinds BIGINT, n BIGINT",
        ("orders",),
    ),
    "a filter and a mean": (
        "SELECT UPPER(buyer) AS who, AVG(ratio) FROM orders WHERE ms > 0 OR ms IS NULL GROUP BY UPPER(buyer)",
        "who STRING, mean DOUBLE",
        ("orders",),
    ),
    "distinct": ("SELECT DISTINCT buyer, ms FROM orders", "buyer STRING, ms BIGINT", ("orders",)),
    "a foreign key": (
        "SELECT o.id, u.tier, u.name AS name FROM orders AS o LEFT JOIN users AS u ON o.buyer = u.name",
        "id BIGINT, tier STRING, name STRING",
        ("orders", "users"),
    ),
    "a foreign key from the right": (
        "SELECT o.id, u.tier FROM users AS u RIGHT JOIN orders AS o ON o.buyer = u.name",
        "id BIGINT, tier STRING",
        ("orders", "users"),
    ),
    "a join of a group, grouped": (
        (
            "SELECT u.tier, SUM(s.n) AS n, COUNT(*) AS buyers FROM users AS u"
            " JOIN (SELECT buyer, COUNT(*) AS n FROM orders GROUP BY buyer) AS s ON s.buyer = u.name AND s.n > 1"
            " GROUP BY u.tier"
        ),
        "tier STRING, n BIGINT, buyers BIGINT",
        ("orders", "users"),
    ),
    "both sides": (
        (
            "SELECT COALESCE(s.who, u.name) AS name, u.name AS known, u.tier, s.n FROM users AS u FULL JOIN"
            " (SELECT buyer AS who, COUNT(*) AS n FROM orders WHERE buyer IS NOT NULL GROUP BY buyer) AS s"
            " ON s.who = u.name WHERE u.tier IS NULL OR s.n > 2"
        ),
        "name STRING, known STRING, tier STRING, n BIGINT",
        ("orders", "users"),
    ),
    "a foreign key and another condition": (
        (
            "SELECT o.id, u.tier, u.name IS NULL AS alone, o.ms FROM orders AS o LEFT JOIN users AS u"
            " ON o.buyer = u.name AND o.ms > CHAR_LENGTH(u.tier) - 2 AND u.tier <> o.buyer"
        ),
        "id BIGINT, tier STRING, alone BOOLEAN, ms BIGINT",
        ("orders", "users"),
    ),
    "a foreign key from the right and another condition, grouped": (
        (
            "SELECT u.tier, COUNT(*) AS n, COUNT(u.name) AS known, SUM(o.ms) FROM users AS u RIGHT JOIN orders AS o"
            " ON o.buyer = u.name AND o.ms > 1 GROUP BY u.tier"
        ),
        "tier STRING, n BIGINT, known BIGINT, total BIGINT",
        ("orders", "users"),
    ),
    "any equal columns, left": (
        (
            "SELECT o.id, u.name, u.tier, o.ms FROM orders AS o LEFT JOIN users AS u"
            " ON CHAR_LENGTH(u.name) = o.ms AND u.tier IS NOT NULL"
        ),
        "id BIGINT, name STRING, tier STRING, ms BIGINT",
        ("orders", "users"),
    ),
    "any equal columns, from the right, grouped": (
        (
            "SELECT u.tier, COUNT(*) AS n, SUM(s.n) AS total, MAX(s.buyer) AS last FROM"
            " (SELECT id, buyer, ms AS n FROM orders WHERE ms > 0) AS s RIGHT JOIN users AS u"
            " ON s.n = CHAR_LENGTH(u.name) AND s.buyer <> 'cy' GROUP BY u.tier"
        ),
        "tier STRING, n BIGINT, total BIGINT, last STRING",
        ("orders", "users"),
    ),
    "any equal columns of both, full": (
        (
            "SELECT o.id, u.name, o.ms, u.tier FROM orders AS o FULL JOIN users AS u"
            " ON o.buyer = u.tier OR (o.buyer IS NULL AND u.tier IS NULL)"
        ),
        "id BIGINT, name STRING, ms BIGINT, tier STRING",
        ("orders", "users"),
    ),
    "two equal columns, of which one is a key, in a second join": (
        (
            "SELECT o.id, p.id AS other, u.tier FROM orders AS o JOIN orders AS p ON o.ms = p.ms AND o.ms = p.id"
            " LEFT JOIN users AS u ON u.name = p.buyer"
        ),
        "id BIGINT, other BIGINT, tier STRING",
        ("orders", "users"),
    ),
    "the full key of one side, full": (
        "SELECT o.id, u.name, u.tier FROM orders AS o FULL JOIN users AS u ON o.buyer = u.name WHERE o.ms > 1",
        "id BIGINT, name STRING, tier STRING",
        ("orders", "users"),
    ),
    "groups of null, which equal no other": (
        (
            "SELECT a.buyer, a.n, b.m FROM (SELECT buyer, COUNT(*) AS n FROM orders GROUP BY buyer) AS a"
            " LEFT JOIN (SELECT buyer, COUNT(*) AS m FROM clicks GROUP BY buyer) AS b ON b.buyer = a.buyer"
        ),
        "buyer STRING, n BIGINT, m BIGINT",
        ("orders", "clicks"),
    ),
    "groups of a stream, grouped": (
        (
            "SELECT n, COUNT(*) AS pages, SUM(most) FROM"
            " (SELECT page, buyer, COUNT(*) AS n, MAX(ms) AS most FROM clicks GROUP BY page, buyer) AS p GROUP BY n"
        ),
        "n BIGINT, pages BIGINT, most BIGINT",
        ("clicks",),
    ),
    "groups of a stream, filtered": (
        "SELECT buyer, SUM(ms) AS total, MIN(page) FROM clicks GROUP BY buyer HAVING SUM(ms) BETWEEN 20 AND 60",
        "buyer STRING, total BIGINT, first STRING",
        ("clicks",),
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_should_equal_duckdb_after_each_batch(driver, name):
    query, columns, tables = QUERIES[name]
    batches = only(history(sum(map(ord, name))), *tables)
    assert told(driver, query, columns, batches) == by_duckdb(query, columns, batches)


def test_a_row_replaces_the_earlier_one_of_its_key(driver):
    query = "SELECT buyer, SUM(ratio), MAX(gone) FROM orders GROUP BY buyer"
    batches = [
        {"orders": [{"id": 1, "buyer": "ann", "ratio": 1.0, "gone": False}]},
        {"orders": [{"id": 1, "buyer": "ann", "ratio": 2.0, "gone": False}]},
    ]
    found = told(driver, query, "buyer STRING, total DOUBLE, gone BOOLEAN", batches)
    assert [dict(row)["total"] for state in found for row in state] == [1.0, 2.0]


def test_a_group_of_null_is_a_row_of_its_delta_table(options, tmp_path):
    file = tmp_path / "o.jsonl"
    text = TABLES.format(columns="a STRING").replace("'o.jsonl'", f"'{file}'")
    text += "CREATE TABLE kept (buyer STRING, n BIGINT) WITH ('connector' = 'delta', 'table' = 'kept');"
    text += "INSERT INTO kept SELECT buyer, COUNT(*) FROM orders GROUP BY buyer"
    for rows in ([(1, None), (2, None), (3, "ann")], [(3, None), (2, "bo")]):
        with file.open("a") as lines:
            lines.writelines(json.dumps({"id": key, "buyer": buyer, "gone": False}) + "\n" for key, buyer in rows)
        pipeline_from_sql(text, job="kept").run(options)
    table = DeltaTable(options.home.table("sql", "kept")).to_pyarrow_table().to_pylist()
    assert sorted(((row["buyer"], row["n"]) for row in table), key=str) == [("bo", 1), (None, 2)]


def test_a_key_may_have_the_name_of_the_counted_rows():
    query = "SELECT DISTINCT row_count, tier FROM (SELECT UPPER(name) AS row_count, tier FROM users) AS u"
    made = pipeline_from_sql(TABLES.format(columns="a STRING, b STRING") + f"INSERT INTO shown {query}")
    assert "[row_count_2 by row_count, tier" in made.describe()


def test_a_name_or_a_text_is_no_call():
    query = "SELECT name, 1 FROM users WHERE tier <> 'now()' GROUP BY name"
    assert (
        "table_group"
        in pipeline_from_sql(TABLES.format(columns="a STRING, b INT") + f"INSERT INTO shown {query}").describe()
    )


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT 'a', COUNT(*) FROM orders", "an aggregate over all rows of a table has no key"),
        ("SELECT u.tier, 1 FROM users AS u JOIN orders AS o ON u.name < o.buyer", "needs equal columns"),
        (
            (
                "SELECT a.buyer, 1 FROM (SELECT buyer, MAX(ms) AS m FROM orders GROUP BY buyer) AS a FULL JOIN"
                " (SELECT tier, COUNT(*) AS n FROM users GROUP BY tier) AS b ON a.m = b.n"
            ),
            "two rows of null would have one key",
        ),
        ("SELECT u.tier, 1 FROM users AS u LEFT JOIN orders AS o ON u.tier = o.buyer AND u.name < o.buyer", "equal"),
        ("SELECT c.page, 1 FROM clicks AS c JOIN users AS u ON u.name = c.buyer", "a stream cannot be joined"),
        ("SELECT tier, ROW_NUMBER() OVER (ORDER BY tier) FROM users", "OVER"),
        ("SELECT tier, 1 FROM users WHERE name > CAST(NOW() AS STRING)", "over a table gives another value"),
        ("SELECT name, 1 FROM (SELECT * FROM users UNION ALL SELECT * FROM users)", "has no key"),
    ],
)
def test_should_refuse_what_no_table_can_give(query, what):
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(TABLES.format(columns="a STRING, b BIGINT") + f"INSERT INTO shown {query}")


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("gone AS op = 'd'", "not 'gone', which is computed"),
        ("gone INT", "not 'gone', of type INT"),
        ("went BOOLEAN", "not 'gone', which the table does not have"),
    ],
)
def test_deletes_that_is_not_a_boolean_of_the_records_is_refused_with_its_reason(column, why):
    table = f"""CREATE TABLE orders (id BIGINT, op STRING, {column}, PRIMARY KEY (id) NOT ENFORCED) WITH (
        'connector' = 'filesystem', 'path' = 'o.jsonl', 'format' = 'json', 'follow' = 'true', 'deletes' = 'gone');
        CREATE TABLE shown (op STRING) WITH ('connector' = 'print'); INSERT INTO shown SELECT op FROM orders"""
    with pytest.raises(SqlError, match=why):
        pipeline_from_sql(table)
