"""Rankings, sub-queries and filtered groups over tables that change, all in one pipeline, against DuckDB."""

from __future__ import annotations

import duckdb
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.testing import PipelineDriver
from tests.sql.test_tables import CLICKS, ORDERS, TABLES, history, put
from tests.tables.model import Told

FIRST = "ROW_NUMBER() OVER (PARTITION BY buyer ORDER BY {}) AS rn FROM orders"
# The columns of each query, and its text, which means the same in DuckDB.
QUERIES = {
    "filtered": (
        "page STRING, n BIGINT",
        "SELECT page, n FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) AS c WHERE n BETWEEN 5 AND 14",
    ),
    "numbered": (
        "buyer STRING, rn INT, id BIGINT, ms BIGINT",
        f"SELECT buyer, rn, id, ms FROM (SELECT *, {FIRST.format('ms DESC, ratio, id')}) AS d WHERE rn <= 3",
    ),
    "second": (
        "id BIGINT, who STRING",
        (
            "SELECT id, UPPER(buyer) AS who FROM"
            f" (SELECT id, buyer, ms + 1 AS m, {FIRST.format('ms + 1, id DESC')}) AS d"
            " WHERE rn = 2 AND m > 0"
        ),
    ),
    "placed": (
        "part_1 BIGINT, order_1 BIGINT, rn INT",
        (
            "SELECT part_1, order_1, rn FROM"
            f" (SELECT id AS part_1, ms AS order_1, {FIRST.format('ratio, id')}) AS d WHERE rn <= 2"
        ),
    ),
    "means": (
        "buyer STRING, mean DOUBLE",
        f"SELECT buyer, AVG(ratio) AS mean FROM (SELECT *, {FIRST.format('id DESC')}) AS d WHERE rn < 5 GROUP BY buyer",
    ),
    "pages": (
        "page STRING, n BIGINT, rn INT",
        (
            "SELECT page, n, rn FROM (SELECT page, n, ROW_NUMBER() OVER (ORDER BY n DESC, page) AS rn FROM"
            " (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) AS c) AS d WHERE rn <= 2"
        ),
    ),
    "among": (
        "id BIGINT, buyer STRING",
        "SELECT id, buyer FROM orders WHERE buyer IN (SELECT name FROM users WHERE tier = 'paid') AND ms > 0",
    ),
    "some": (
        "name STRING, tier STRING",
        "SELECT name, tier FROM users WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.buyer = users.name AND o.ms > 3)",
    ),
    "none": (
        "id BIGINT, ms BIGINT",
        (
            "SELECT o.id, o.ms FROM orders AS o WHERE NOT EXISTS"
            " (SELECT 1 FROM clicks AS c WHERE c.buyer = o.buyer AND c.ms = o.ms)"
        ),
    ),
    "twice": (
        "id BIGINT, ms BIGINT",
        (
            "SELECT id, ms FROM orders AS o WHERE EXISTS"
            " (SELECT 1 FROM clicks AS c WHERE c.ms = o.ms AND c.ms = MOD(o.id, 5))"
        ),
    ),
    "untwice": (
        "id BIGINT, ms BIGINT",
        (
            "SELECT id, ms FROM orders AS o WHERE NOT EXISTS"
            " (SELECT 1 FROM clicks AS c WHERE c.ms + 1 = o.ms AND c.ms + 1 = MOD(o.id, 5))"
        ),
    ),
    "late": (
        "buyer STRING, id BIGINT, tier STRING, m BIGINT",
        (
            "SELECT g.buyer, o.id, u.tier, CASE WHEN u.name IS NULL THEN -1 ELSE g.n END AS m FROM orders AS o"
            " LEFT JOIN users AS u ON o.buyer = u.name AND o.ms > 3"
            " JOIN (SELECT buyer, COUNT(*) AS n FROM clicks GROUP BY buyer) AS g ON g.n = o.id"
        ),
    ),
    "beside": (
        "buyer STRING, n BIGINT",
        (
            "SELECT buyer, n FROM (SELECT buyer, COUNT(*) AS n FROM clicks GROUP BY buyer) AS c WHERE buyer IS NOT NULL"
            " AND buyer NOT IN (SELECT name FROM users WHERE name IS NOT NULL AND tier = 'free')"
        ),
    ),
}


def wanted(batches):
    """The rows of each query after each batch, by DuckDB."""
    with duckdb.connect() as db:
        db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        db.execute(f"CREATE TABLE orders ({ORDERS.replace('STRING', 'TEXT')}, PRIMARY KEY (id))")
        db.execute("CREATE TABLE users (name TEXT PRIMARY KEY, tier TEXT)")
        db.execute(f"CREATE TABLE clicks ({CLICKS.replace('STRING', 'TEXT')})")
        for batch in batches:
            for table, rows in batch.items():
                for row in rows:
                    put(db, table, row)
            yield {name: named(columns, db.execute(query).fetchall()) for name, (columns, query) in QUERIES.items()}


def named(columns, rows):
    names = [column.split()[0] for column in columns.split(", ")]
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_should_equal_duckdb_after_each_batch(driver):
    made = [
        f"CREATE TABLE `{name}` ({columns}) WITH ('connector' = 'print');" for name, (columns, _) in QUERIES.items()
    ]
    made += [f"INSERT INTO `{name}` {query};" for name, (_, query) in QUERIES.items()]
    pipeline = pipeline_from_sql(TABLES.format(columns="a STRING") + "\n".join(made))
    sums = {name: Told() for name in QUERIES}
    batches = history(11)
    with PipelineDriver(pipeline, spark=driver) as running:
        for number, (batch, expected) in enumerate(zip(batches, wanted(batches), strict=True)):
            if number == len(batches) - 1:
                running.restart()
            for table, rows in batch.items():
                running.push(rows, table)
            running.step()
            for name, rows in expected.items():
                sums[name].add(running.take(name))
                assert sums[name].equals(rows), (number, name)


@pytest.mark.parametrize(
    ("query", "step"),
    [
        (
            "SELECT page, n FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) AS c WHERE page > 'a'",
            "window_agg",
        ),
        ("SELECT page, n FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) AS c WHERE n > 1", "table_group"),
    ],
)
def test_a_group_is_a_table_only_where_its_rows_may_stop_to_pass(query, step):
    assert (
        step in pipeline_from_sql(TABLES.format(columns="a STRING, b BIGINT") + f"INSERT INTO shown {query}").describe()
    )


def test_a_sub_query_over_a_table_may_be_a_view_that_groups_a_stream():
    view = "CREATE VIEW often AS SELECT buyer, COUNT(*) AS n FROM clicks GROUP BY buyer;"
    query = "SELECT buyer, id FROM orders WHERE buyer IN (SELECT buyer FROM often WHERE n > 2)"
    made = pipeline_from_sql(TABLES.format(columns="a STRING, b BIGINT") + view + f"INSERT INTO shown {query}")
    assert "table_group <- clicks  [n by buyer]" in made.describe()


@pytest.mark.parametrize(
    ("columns", "key", "query"),
    [
        ("a STRING, b BIGINT", "a", "SELECT buyer, ms FROM (SELECT *, {}) AS d WHERE rn = 1"),
        ("a STRING, b BIGINT, c BIGINT", "a, b", "SELECT buyer, rn, ms FROM (SELECT *, {}) AS d WHERE rn <= 2"),
        ("a BIGINT, b BIGINT", "a", "SELECT id, ms FROM (SELECT *, {}) AS d WHERE rn <= 2"),
    ],
)
def test_a_ranking_is_written_by_its_group_and_number_or_by_the_key_of_its_rows(columns, key, query):
    text = TABLES.format(columns="x STRING")
    text += f"CREATE TABLE d ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH ('connector' = 'delta', 'table' = 'd');"
    made = pipeline_from_sql(text + "INSERT INTO d " + query.format(FIRST.format("ms DESC")))
    assert made.topology["d"].keys == tuple(key.split(", "))


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("id, ms FROM orders WHERE buyer IN (SELECT name FROM users WHERE tier > buyer)", "needs equal columns"),
        ("page, ms FROM clicks WHERE buyer IN (SELECT name FROM users)", "a stream cannot be joined"),
        ("name, 1 FROM users WHERE name NOT IN (SELECT buyer FROM orders)", "NOT IN is not true"),
    ],
)
def test_should_refuse_sub_queries_that_are_no_join(query, what):
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(TABLES.format(columns="a STRING, b BIGINT") + f"INSERT INTO shown SELECT {query}")


@pytest.mark.parametrize(
    ("key", "column", "remedy"),
    [
        ("ms", "DOUBLE", "BIGINT"),
        ("ratio", "FLOAT", "DOUBLE"),
        ("price", "DECIMAL(8, 1)", "DECIMAL(8, 2)"),
    ],
)
def test_should_refuse_a_key_of_which_its_column_makes_one_of_two_values(key, column, remedy):
    table = "orders" if key in ("ratio", "price") else "clicks"
    tables = TABLES.format(columns="a STRING") + "CREATE TABLE kept (k {}, n BIGINT) WITH ('connector' = 'delta', "
    tables += (
        f"'table' = 'k'); INSERT INTO kept SELECT k, COUNT(*) FROM (SELECT {key} AS k FROM {table}) AS t GROUP BY k"
    )
    with pytest.raises(SqlError, match="'k' is a key") as refused:
        pipeline_from_sql(tables.format(column))
    assert f"declare the column as {remedy.replace(' ', '')}" in str(refused.value)
    assert pipeline_from_sql(tables.format(remedy))


def test_should_refuse_a_time_as_a_key_of_days_but_not_a_day():
    text = """CREATE TABLE seen (ts TIMESTAMP(3)) WITH ('connector' = 'memory');
        CREATE TABLE days (d DATE, n BIGINT) WITH ('connector' = 'delta', 'table' = 'days');
        INSERT INTO days SELECT {0} AS d, COUNT(*) FROM seen GROUP BY {0}"""
    with pytest.raises(SqlError, match="'d' is a key, and values of TIMESTAMP that differ may be one DATE"):
        pipeline_from_sql(text.format("ts"), tables={"seen": []})
    assert pipeline_from_sql(text.format("FLOOR(ts TO DAY)"), tables={"seen": []})
    assert pipeline_from_sql(text.format("CAST(ts AS DATE)"), tables={"seen": []})
