"""FOR SYSTEM_TIME AS OF PROCTIME() of a table: each row of a stream with the row of the table in its batch."""

from __future__ import annotations

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
        LEFT JOIN users FOR SYSTEM_TIME AS OF c.p u ON u.name = c.buyer AND u.tier = 'paid';
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
        found["outer_rows"].append((page, ms, buyer if paid else None, tier if paid else None))
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
        (f"clicks AS c LEFT JOIN users {AS_OF} AS u ON c.buyer = u.name AND c.ms > 1", "equal columns only"),
        (f"orders AS c JOIN users {AS_OF} AS u ON c.buyer = u.name", "both sides are tables"),
        (f"clicks AS c JOIN plain {AS_OF} AS u ON c.buyer = u.page", "has no key"),
    ],
)
def test_should_refuse_what_is_no_join_with_current_rows(query, what):
    plain = "CREATE VIEW plain AS SELECT page FROM clicks;"
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(statements(["by_tier"]) + plain + f"INSERT INTO by_tier SELECT u.tier, c.ms FROM {query}")
