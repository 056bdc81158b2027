"""A left join whose matches come late goes through a group into an upsert table, which equals one batch of all rows.

orders without users -> one group -> users come, change and go -> their orders move from group to group

So does a join of streams whose early rows are retracted.
"""

import json
import random
from collections import Counter
from dataclasses import replace

import duckdb
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, pipeline_from_sql
from rs_assets.common.home import Home
from rs_assets.errors import TopologyError
from tests.tables.model import Told

ORDERS, USERS = "id bigint, buyer string, ms bigint, gone boolean", "name string, tier string, gone boolean"
KEYS = {"orders": "id", "users": "name"}
RESULT = "SELECT u.tier, COUNT(*) AS n, SUM(o.ms) AS total, MAX(o.ms) AS most FROM orders AS o"
RESULT += " LEFT JOIN users AS u ON o.buyer = u.name GROUP BY u.tier"
TABLES = """
    CREATE TABLE orders (id BIGINT, buyer STRING, ms BIGINT, gone BOOLEAN, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'filesystem', 'path' = '{0}/orders.jsonl', 'format' = 'json', 'follow' = 'true',
            'deletes' = 'gone');
    CREATE TABLE users (name STRING, tier STRING, gone BOOLEAN, PRIMARY KEY (name) NOT ENFORCED)
        WITH ('connector' = 'filesystem', 'path' = '{0}/users.jsonl', 'format' = 'json', 'follow' = 'true',
            'deletes' = 'gone');
    CREATE TABLE tiers (tier STRING, n BIGINT, total BIGINT, most BIGINT)
        WITH ('connector' = 'delta', 'table' = 'tiers');
"""


def fluent(folder):
    """A row without a tier has the text 'none', since a group by null has no row."""
    shop = StreamBuilder.data_stream("sql", "tiers")
    orders = shop.from_file(folder / "orders.jsonl", schema=ORDERS, tail=True, name="orders")
    users = shop.from_file(folder / "users.jsonl", schema=USERS, tail=True, name="users")
    orders = orders.to_table("id", deletes="gone", name="order_table").map_values("buyer", "ms", name="order_rows")
    users = users.to_table("name", deletes="gone", name="user_table").map_values("tier", name="user_rows")
    joined = orders.join(users, on={"buyer": "name"}, how="left").with_fields(tier_or_none="coalesce(tier, 'none')")
    groups = joined.group_by("tier_or_none").count("n").sum("ms", "total").max("ms", "most")
    return groups.to_delta("tiers").build()


def in_sql(folder):
    return pipeline_from_sql(f"{TABLES.format(folder)} INSERT INTO tiers {RESULT};", job="tiers")


def history(seed):
    """Orders before their users; then users come, change and go, and so do orders."""
    rng = random.Random(seed)

    def order():
        buyer = rng.choice(["ann", "bo", "cy", "dee", None])
        return {"id": rng.randrange(40), "buyer": buyer, "ms": rng.randrange(9), "gone": rng.random() < 0.1}

    def user():
        tier = rng.choice(["free", "paid", None])
        return {"name": rng.choice(["ann", "bo", "cy", "dee"]), "tier": tier, "gone": rng.random() < 0.2}

    def batch(orders, users):
        return {"orders": [order() for _ in range(orders)], "users": [user() for _ in range(users)]}

    return [batch(60, 0), batch(0, 3), batch(20, 3), batch(5, 6)]


def by_duckdb(batches):
    """The groups over the rows that are there after all batches."""
    with duckdb.connect() as db:
        db.execute("CREATE TABLE orders (id BIGINT, buyer TEXT, ms BIGINT)")
        db.execute("CREATE TABLE users (name TEXT, tier TEXT)")
        for table, key in KEYS.items():
            last = {row[key]: row for batch in batches for row in batch[table]}
            for row in last.values():
                *values, gone = row.values()
                if not gone:
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        return Counter(db.execute(RESULT).fetchall())


def rows(options):
    found = DeltaTable(options.home.table("sql", "tiers")).to_pyarrow_table().to_pylist()
    return Counter(tuple(None if value == "none" else value for value in row.values()) for row in found)


def append(folder, batch):
    for name, changes in batch.items():
        with (folder / f"{name}.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in changes)


@pytest.mark.parametrize("form", [fluent, in_sql])
def test_a_left_join_that_late_matches_correct_equals_one_batch_behind_a_group(options, tmp_path, form):
    batches = history(11)
    append(tmp_path, dict.fromkeys(KEYS, ()))
    for number, batch in enumerate(batches, 1):
        append(tmp_path, batch)
        form(tmp_path).run(options)
        assert rows(options) == by_duckdb(batches[:number]), number
    once = replace(options, home=Home(tmp_path / "once"))
    form(tmp_path).run(once)
    assert rows(once) == rows(options)


MINUTE = 60_000


def early(**join):
    """Orders with their payment of the next five minutes, of which one that is still to come is taken for none."""
    shop = StreamBuilder.data_stream("test", "early")
    orders = shop.from_file("orders.jsonl", schema="id bigint, ms bigint, ts bigint", tail=True, name="orders")
    payments = shop.from_file("payments.jsonl", schema="id bigint, kind string, ts bigint", tail=True, name="payments")
    settings = {"within": Time.minutes(5), "time_field": "ts", "how": "left", "prefix": "paid_", "early": True}
    return orders.join(payments, on="id", water_mark=Time.minutes(10), **{**settings, **join})


def by_kind(stream):
    return stream.to_table("id", deletes="retracted").map_values("ms", "coalesce(paid_kind, 'open') AS kind")


def sales(seed):
    """Batches of orders, each with at most one payment: in the same batch, in a later one, or too late."""
    rng, number, unpaid = random.Random(seed), 0, []
    for batch in range(5):
        orders = [
            {"id": (number := number + 1), "ms": rng.randrange(9), "ts": batch * MINUTE + rng.randrange(MINUTE)}
            for _ in range(rng.randrange(4, 12))
        ]
        unpaid += orders
        paid = [order for order in unpaid if rng.random() < 0.4]
        unpaid = [order for order in unpaid if order not in paid]
        payments = [
            {"id": order["id"], "kind": rng.choice(["card", "cash"]), "ts": order["ts"] + rng.randrange(6) * MINUTE}
            for order in paid
        ]
        yield {"orders": orders, "payments": payments}


def by_hand(batches):
    payments = {row["id"]: row for batch in batches for row in batch["payments"]}
    groups = {}
    for order in (row for batch in batches for row in batch["orders"]):
        payment = payments.get(order["id"])
        met = payment is not None and payment["ts"] <= order["ts"] + 5 * MINUTE
        group = groups.setdefault(payment["kind"] if met else "open", [])
        group.append(order["ms"])
    return [{"kind": kind, "n": len(ms), "total": sum(ms), "most": max(ms)} for kind, ms in groups.items()]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_early_rows_that_a_join_retracts_go_through_a_table_into_a_group(follow, seed):
    batches, told = [*sales(seed)], Told()
    stream = by_kind(early()).group_by("kind").count("n").sum("ms", "total").max("ms", "most").to_stream()
    for number, changes in enumerate(follow(stream, batches), 1):
        told.add(changes)
        assert told.equals(by_hand(batches[:number])), number


def test_a_table_of_early_rows_is_refused_where_a_pair_may_not_replace_them():
    with pytest.raises(TopologyError, match="a pair of the join 'join' may sort before"):
        early(prefix=None).with_fields(at="ts").to_table("id", deletes="retracted", order_by="at").to_delta("t").build()
    with pytest.raises(TopologyError, match="would count rows that the join 'join' retracts"):
        early().to_table("id").to_delta("t").build()
    with pytest.raises(TopologyError, match="no watermark passes through a table"):
        by_kind(early()).to_stream().to_table("id", deletes="retracted", name="again", time_field="ms",
            time_to_live=Time.minutes(1)).to_delta("t").build()  # fmt: skip
