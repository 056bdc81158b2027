"""Joins of tables, by their keys and by a foreign key, and of streams with tables."""

import random

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from tests.tables.model import Told, net

LEFT, RIGHT = "id bigint, user bigint, ms bigint, gone boolean", "uid bigint, tier string, left boolean"


def both():
    shop = StreamBuilder.data_stream("test", "joined")
    orders = shop.from_file("o.jsonl", schema=LEFT, tail=True, name="orders").to_table(
        "id", deletes="gone", name="left"
    )
    users = shop.from_file("u.jsonl", schema=RIGHT, tail=True, name="users").to_table(
        "uid", deletes="left", name="right"
    )
    return orders.map_values("user", "ms"), users.map_values("tier")


def histories(seed, batches=3):
    rng = random.Random(seed)

    def order():
        user = rng.choice([None, *range(12)])
        return {"id": rng.randrange(12), "user": user, "ms": rng.randrange(5), "gone": rng.random() < 0.2}

    def user():
        return {"uid": rng.randrange(12), "tier": rng.choice(["a", "b", None]), "left": rng.random() < 0.3}

    return [
        {"orders": [order() for _ in range(rng.randrange(25))], "users": [user() for _ in range(rng.randrange(12))]}
        for _ in range(batches)
    ]


def after(tables, batch):
    orders, users = map(dict, tables)
    for row in batch["orders"]:
        orders.pop(row["id"], None)
        if not row["gone"]:
            orders[row["id"]] = {name: row[name] for name in ("id", "user", "ms")}
    for row in batch["users"]:
        users.pop(row["uid"], None)
        if not row["left"]:
            users[row["uid"]] = {name: row[name] for name in ("uid", "tier")}
    return orders, users


def by_key(orders, users, how):
    keys = (
        orders.keys() & users.keys() if how == "inner" else orders.keys() | (users.keys() if how == "outer" else set())
    )
    nothing = {"user": None, "ms": None}, {"u_uid": None, "u_tier": None}
    return {
        key: {
            "id": key,
            **({name: orders[key][name] for name in ("user", "ms")} if key in orders else nothing[0]),
            **({f"u_{name}": value for name, value in users[key].items()} if key in users else nothing[1]),
        }
        for key in keys
    }


def by_foreign_key(orders, users, how):
    found = {key: {**row, "tier": users.get(row["user"], {}).get("tier")} for key, row in orders.items()}
    return {key: row for key, row in found.items() if how == "left" or row["user"] in users}


CASES = [
    *((how, {"on": None, "prefix": "u_"}, by_key) for how in ("inner", "left", "outer")),
    *((how, {"on": {"user": "uid"}}, by_foreign_key) for how in ("inner", "left")),
]


@pytest.mark.parametrize(("how", "options", "model"), CASES)
def test_join_of_random_histories_equals_the_join_of_dictionaries_after_each_batch(follow, how, options, model):
    batches = histories(f"{how} {options}", batches=4)
    orders, users = both()
    tables, expected, told = ({}, {}), {}, Told()
    for batch, changes in zip(
        batches, follow(orders.join(users, how=how, **options).to_stream(), batches), strict=True
    ):
        tables = after(tables, batch)
        before, expected = expected, model(*tables, how)
        told.add(changes)
        assert told.equals(expected.values())
        assert len(changes) == net(before, expected)


def test_a_row_of_nulls_that_comes_or_goes_is_no_change_where_it_looks_like_a_missing_one(follow):
    orders, users = both()
    blank, gone = {"uid": 1, "tier": None, "left": False}, {"uid": 1, "tier": None, "left": True}
    order = {"id": 1, "user": None, "ms": None, "gone": False}
    told = follow(
        orders.join(users, how="outer").to_stream(),
        [
            {"orders": [order], "users": []},
            {"orders": [], "users": [blank]},
            {"orders": [{**order, "gone": True}], "users": []},
            {"orders": [order], "users": [gone]},
            {"orders": [{**order, "ms": 5}], "users": [blank]},
        ],
        restart=False,
    )
    assert [len(changes) for changes in told] == [1, 0, 0, 0, 2]


def test_join_by_a_foreign_key_flows_through_a_group(follow):
    orders, users = both()
    tiers = orders.join(users, on={"user": "uid"}).group_by("tier").count("n").sum("ms", "total").to_stream()
    batches, tables, told = histories(5, batches=4), ({}, {}), Told()
    for batch, changes in zip(batches, follow(tiers, batches), strict=True):
        tables = after(tables, batch)
        groups = {}
        # A row without a tier is in no group.
        for row in (row for row in by_foreign_key(*tables, "inner").values() if row["tier"] is not None):
            group = groups.setdefault(row["tier"], {"tier": row["tier"], "n": 0, "total": 0})
            group["n"] += 1
            group["total"] += row["ms"]
        told.add(changes)
        assert told.equals(groups.values())


@pytest.mark.parametrize("how", ["inner", "left"])
def test_join_table_gives_each_row_of_a_stream_the_row_of_its_batch(follow, how):
    shop = StreamBuilder.data_stream("test", "seen")
    users = shop.from_file("u.jsonl", schema=RIGHT, tail=True, name="users").to_table("uid", deletes="left")
    clicks = shop.from_file("c.jsonl", schema="user bigint, page string", tail=True, name="clicks")
    seen = clicks.join_table(users.map_values("tier"), on={"user": "uid"}, how=how)
    told = follow(
        seen,
        [
            {"clicks": [{"user": 1, "page": "/a"}], "users": []},
            {"clicks": [{"user": 1, "page": "/b"}], "users": [{"uid": 1, "tier": "free", "left": False}]},
            {"clicks": [], "users": [{"uid": 1, "tier": "paid", "left": False}]},
            {"clicks": [{"user": 1, "page": "/c"}, {"user": None, "page": "/d"}], "users": []},
            {"clicks": [{"user": 1, "page": "/e"}], "users": [{"uid": 1, "tier": "paid", "left": True}]},
        ],
    )
    rows = [sorted((row["page"], row["tier"]) for row in changes) for changes in told]
    alone = how == "left"
    assert rows == [
        [("/a", None)] * alone,
        [("/b", "free")],
        [],
        [("/c", "paid"), *[("/d", None)] * alone],
        [("/e", None)] * alone,
    ]


REFUSED = [
    (lambda one, two: one.join(two, on={"user": "uid"}, how="outer"), "have no key"),
    (lambda one, two: one.join(two, on={"user": "tier"}), "must name the key of the other table"),
    (lambda one, two: one.join(two.map_values("tier AS ms")), "two fields called 'ms'"),
    (lambda one, two: one.join(two.to_stream()), "joins a table, not DataStream"),
    (
        lambda one, two: one.join(StreamBuilder.data_stream("a", "b").from_array([{"id": 1}]).to_table("id")),
        "two pipelines",
    ),
    (lambda one, two: one.with_fields(label="'x'").join(two, on={"label": "uid"}), "bigint"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_join_refuses_tables_that_do_not_fit(make, why):
    with pytest.raises(TopologyError, match=why):
        make(*both()).to_stream().to_print().build()
