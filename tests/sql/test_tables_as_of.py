"""FOR SYSTEM_TIME AS OF of a table: each row of a stream with the row of its batch, or of its event time."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.testing import PipelineDriver
from tests.sql.test_tables import CLICKS, TABLES, history

AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME()"
TIMED = CLICKS + ", p AS PROCTIME()"
SINKS = {
    "inner": "page STRING, ms BIGINT, tier STRING",
    "outer_rows": "page STRING, ms BIGINT, name STRING, tier STRING",
    "paid": "page STRING, ms BIGINT",
    "twice": "page STRING, ms BIGINT, tier STRING, n BIGINT",
    "by_tier": "tier STRING, n BIGINT",
}
QUERIES = f"""
    CREATE VIEW sums AS SELECT buyer, COUNT(*) AS n FROM orders GROUP BY buyer;
    INSERT INTO `inner` SELECT c.page, c.ms, u.tier FROM clicks AS c JOIN users {AS_OF} AS u ON c.buyer = u.name;
    INSERT INTO outer_rows SELECT c.page, c.ms, u.name, u.tier FROM clicks AS c
        LEFT JOIN users FOR SYSTEM_TIME AS OF c.p u ON u.name = c.buyer AND u.tier = 'paid' AND c.ms > 3;
    INSERT INTO paid SELECT c.page, c.ms FROM clicks AS c JOIN users {AS_OF} AS u ON u.name = c.buyer
        WHERE u.tier = 'paid' AND c.ms > 2;
    INSERT INTO twice SELECT c.page, c.ms, u.tier, s.n FROM clicks AS c
        LEFT JOIN users {AS_OF} AS u ON c.buyer = u.name LEFT JOIN sums {AS_OF} AS s ON s.buyer = c.buyer;
"""


def statements(sinks):
    tables = TABLES.format(columns="a STRING").replace(f"clicks ({CLICKS})", f"clicks ({TIMED})")
    made = [f"CREATE TABLE `{name}` ({SINKS[name]}) WITH ('connector' = 'print');" for name in sinks]
    return tables + "\n".join(made)


def joined(clicks, users, counts):
    """What each query gives for the rows of one batch."""
    found = {name: [] for name in SINKS if name != "by_tier"}
    for click in clicks:
        page, ms, buyer = click["page"], click["ms"], click["buyer"]
        tier = users.get(buyer)
        if buyer in users:
            found["inner"].append((page, ms, tier))
        paid = tier == "paid"
        found["outer_rows"].append((page, ms, buyer, tier) if paid and ms > 3 else (page, ms, None, None))
        if paid and ms > 2:
            found["paid"].append((page, ms))
        found["twice"].append((page, ms, tier, counts.get(buyer) if buyer is not None else None))
    return found


def in_order(rows):
    return sorted(rows, key=str)


def test_each_row_meets_the_table_of_its_batch(driver):
    """A dictionary is the table; deletes, changes and a restart lie between the batches."""
    pipeline = pipeline_from_sql(statements(SINKS) + QUERIES)
    users, orders = {}, {}
    batches = history(7)
    with PipelineDriver(pipeline, spark=driver) as running:
        for number, batch in enumerate(batches):
            if number == len(batches) - 1:
                running.restart()
            for table, rows in batch.items():
                running.push(rows, table)
            running.step()
            users |= {row["name"]: row["tier"] for row in batch["users"]}
            for row in batch["orders"]:
                orders.pop(row["id"], None)
                if not row["gone"]:
                    orders[row["id"]] = row["buyer"]
            buyers = list(orders.values())
            wanted = joined(batch["clicks"], users, {buyer: buyers.count(buyer) for buyer in buyers})
            for name, rows in wanted.items():
                assert in_order(tuple(row.values()) for row in running.take(name)) == in_order(rows), name


def test_a_group_of_joined_rows_is_one_query_if_it_is_grouped_again():
    """No watermark passes the join: a group that changes follows in its query, a window in another one."""
    query = f"FROM clicks AS c JOIN users {AS_OF} AS u ON c.buyer = u.name GROUP BY u.tier"
    text = statements(["by_tier"]) + "INSERT INTO by_tier "
    assert "shuffle" not in pipeline_from_sql(f"{text} SELECT u.tier, COUNT(*) {query} HAVING COUNT(*) > 1").describe()


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("clicks AS c JOIN users FOR SYSTEM_TIME AS OF c.ms AS u ON c.buyer = u.name", "current rows only"),
        (f"clicks AS c RIGHT JOIN users {AS_OF} AS u ON c.buyer = u.name", "its changes emit nothing"),
        (f"clicks AS c JOIN users {AS_OF} AS u ON c.buyer = u.tier", "whole key"),
        (f"orders AS c JOIN users {AS_OF} AS u ON c.buyer = u.name", "both sides are tables"),
        (f"clicks AS c JOIN plain {AS_OF} AS u ON c.buyer = u.page", "has no key"),
    ],
)
def test_should_refuse_what_is_no_join_with_current_rows(query, what):
    plain = "CREATE VIEW plain AS SELECT page FROM clicks;"
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(statements(["by_tier"]) + plain + f"INSERT INTO by_tier SELECT u.tier, c.ms FROM {query}")


BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
FILE = "WITH ('connector' = 'filesystem', 'path' = '/data/{0}.jsonl', 'format' = 'json', 'follow' = 'true'{1})"
SALES = "n BIGINT, item STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' DAY"
PRICES = """sku STRING, price BIGINT, ms BIGINT, gone BOOLEAN, since AS TO_TIMESTAMP_LTZ(ms, 3),
    WATERMARK FOR since AS since - INTERVAL '1' DAY, PRIMARY KEY (sku) NOT ENFORCED"""
VERSIONED = f"""
    CREATE TABLE sales ({SALES}) {FILE.format("sales", "")};
    CREATE TABLE prices ({PRICES}) {FILE.format("prices", ", 'deletes' = 'gone'")};
    CREATE TABLE plain (sku STRING, price BIGINT, PRIMARY KEY (sku) NOT ENFORCED) {FILE.format("plain", "")};
"""
TIMED_SINKS = {
    "outer_rows": "n BIGINT, sku STRING, price BIGINT",
    "dear": "n BIGINT, price BIGINT",
    "twice": "n BIGINT, price BIGINT, other BIGINT",
    "so_far": "n BIGINT, price BIGINT, others BIGINT",
    "per_hour": "item STRING, ends TIMESTAMP(3), spent BIGINT",
}
OF = "FOR SYSTEM_TIME AS OF s.ts"
# The sources of the tables: all statements share one, but for a second join of a table.
READINGS = {"sales": ("sales",), "prices": ("prices", "prices_2")}
TIMED_QUERIES = f"""
    CREATE VIEW valued AS SELECT s.ts, s.item, p.price FROM sales AS s JOIN prices {OF} AS p ON p.sku = s.item;
    INSERT INTO outer_rows SELECT s.n, p.sku, p.price FROM sales AS s LEFT JOIN prices {OF} AS p ON s.item = p.sku;
    INSERT INTO dear SELECT s.n, p.price FROM sales AS s JOIN prices {OF} AS p ON s.item = p.sku AND p.price > 50
        WHERE s.n > 3;
    INSERT INTO twice SELECT s.n, p.price, q.price FROM sales AS s LEFT JOIN prices {OF} AS p ON s.item = p.sku
        LEFT JOIN prices {OF} AS q ON q.sku = s.item AND q.price > 50 AND s.n > 3;
    INSERT INTO so_far SELECT s.n, p.price, COUNT(p.price) OVER (PARTITION BY s.item ORDER BY s.ts)
        FROM sales AS s LEFT JOIN prices {OF} AS p ON s.item = p.sku AND p.price > 50;
    INSERT INTO per_hour SELECT item, window_end, SUM(price)
        FROM TABLE(TUMBLE(TABLE valued, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY item, window_start, window_end;
"""


def timed_statements():
    made = [f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print');" for name, columns in TIMED_SINKS.items()]
    return VERSIONED + "\n".join(made)


def at(minutes):
    return BEGIN + timedelta(minutes=minutes)


def sales_and_prices(seed, batches=3):
    """Sales and prices within five hours, in no order; no two prices of an item have one time."""
    rng, number, times = random.Random(seed), 0, list(range(300))
    rng.shuffle(times)
    for _ in range(batches):
        prices, sales = [], []
        for _ in range(12):
            ms = int(at(times.pop()).timestamp() * 1000)
            prices.append({"sku": rng.choice("abc"), "price": rng.randrange(99), "ms": ms, "gone": rng.random() < 0.3})
        for _ in range(15):
            number += 1
            sales.append({"n": number, "item": rng.choice(["a", "b", "c", "d", None]), "ts": at(rng.randrange(300))})
        yield {"prices": prices, "sales": sales}


def of_their_times(batches):
    prices = [row for batch in batches for row in batch["prices"]]
    found, hours, dears = {name: [] for name in TIMED_SINKS}, Counter(), []
    for sale in (row for batch in batches for row in batch["sales"]):
        ms = sale["ts"].timestamp() * 1000
        version = max(
            (row for row in prices if row["sku"] == sale["item"] and row["ms"] <= ms),
            key=lambda row: row["ms"],
            default={"gone": True},
        )
        there = not version["gone"]
        price = version["price"] if there else None
        found["outer_rows"].append((sale["n"], sale["item"] if there else None, price))
        dears.append((sale["item"], sale["ts"], sale["n"], price if there and price > 50 else None))
        dear = there and price > 50 and sale["n"] > 3
        found["twice"].append((sale["n"], price, price if dear else None))
        if dear:
            found["dear"].append((sale["n"], price))
        if there:
            ends = sale["ts"].replace(minute=0, tzinfo=None) + timedelta(hours=1)
            hours[sale["item"], ends] += price
    found["so_far"] = [
        (n, price, sum(other[0] == item and other[1] <= ts and other[3] is not None for other in dears))
        for item, ts, n, price in dears
    ]
    found["per_hour"] = [(*group, total) for group, total in hours.items()]
    return found


def test_each_row_has_the_version_of_its_time_in_whatever_order_both_come(driver):
    batches, taken = [*sales_and_prices(5)], {name: [] for name in TIMED_SINKS}
    with PipelineDriver(pipeline_from_sql(timed_statements() + TIMED_QUERIES), spark=driver) as running:
        for number, batch in enumerate(batches):
            if number == len(batches) - 1:
                running.restart()
            for table, rows in batch.items():
                for source in READINGS[table]:
                    running.push(rows, source)
            running.step()
        running.finish()
        for name, rows in taken.items():
            rows += [tuple(row.values()) for row in running.take(name)]
    for name, rows in of_their_times(batches).items():
        assert sorted(map(plain, taken[name]), key=str) == sorted(rows, key=str), name


def plain(row):
    return tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (f"sales AS s JOIN plain {OF} AS p ON s.item = p.sku", "current rows only"),
        (f"sales AS s JOIN valued {OF} AS p ON s.item = p.item", "has no key"),
        (f"sales AS s RIGHT JOIN prices {OF} AS p ON s.item = p.sku", "its changes emit nothing"),
        (f"sales AS s JOIN prices {OF} AS p ON s.n = p.price", "whole key"),
        (f"sales AS s JOIN prices {OF} AS s ON s.item = s.sku", "duplicate table name"),
        ("prices AS p", "join its versions"),
    ],
)
def test_should_refuse_what_has_no_versions(query, what):
    now = "FOR SYSTEM_TIME AS OF PROCTIME()"
    view = f"CREATE VIEW valued AS SELECT item, price FROM sales AS s JOIN plain {now} AS p ON p.sku = s.item;"
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(timed_statements() + view + f"INSERT INTO dear SELECT p.price, p.price FROM {query}")
