"""Joins of tables, by their keys and by a foreign key, and of streams with tables and with their versions."""

import json
import random
from collections import Counter, defaultdict

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time
from rs_assets.errors import BadRecordError, TopologyError
from rs_assets.runtime.upkeep.state import snapshot_state
from rs_assets.topology.shape import changes as changes_of
from rs_assets.topology.shape import shape_of
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


@pytest.mark.canary
def test_rows_of_join_table_are_in_the_order_of_their_records(follow):
    shop = StreamBuilder.data_stream("test", "seen")
    users = shop.from_file("u.jsonl", schema=RIGHT, tail=True, name="users").to_table("uid", deletes="left")
    clicks = shop.from_file("c.jsonl", schema="id bigint, user bigint, page string", tail=True, name="clicks")
    seen = clicks.join_table(users.map_values("tier"), on={"user": "uid"}, how="left").to_table("id", name="newest")
    rows = [{"id": n % 2, "user": n * 7 % 5, "page": str(9 - n)} for n in range(10)]
    (changes,) = follow(seen.to_stream(), [{"clicks": rows, "users": []}], restart=False)
    assert sorted((row["id"], row["page"]) for row in changes) == [(0, "1"), (1, "0")]


@pytest.mark.long
def test_rows_of_join_table_are_reduced_in_the_order_of_their_records(follow):
    shop = StreamBuilder.data_stream("test", "seen")
    users = shop.from_file("u.jsonl", schema=RIGHT, tail=True, name="users").to_table("uid", deletes="left")
    clicks = shop.from_file("c.jsonl", schema="id bigint, user bigint, n bigint", tail=True, name="clicks")
    seen = clicks.join_table(users.map_values("tier"), on={"user": "uid"}, how="left").group_by("id")
    told = seen.reduce(
        lambda value, row: {"all": [*(value["all"] if value else []), row["n"]]}, schema="all array<bigint>"
    )
    rows = [{"id": 1, "user": n * 7 % 5, "n": 9 - n} for n in range(10)]
    (changes,) = follow(told.to_stream(), [{"clicks": rows, "users": []}], restart=False)
    assert [row["all"] for row in changes] == [[row["n"] for row in rows]]


REFUSED = [
    (lambda one, two: one.join(two, on={"user": "uid"}, how="full"), "cannot join 'full'"),
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


def test_join_refuses_lists_as_foreign_keys():
    shop = StreamBuilder.data_stream("test", "lists")
    one, two = (
        shop.from_file(f"{name}.jsonl", schema="id bigint, at array<int>", tail=True, name=name).to_table(
            "id", name=f"{name}s"
        )
        for name in ("one", "two")
    )
    with pytest.raises(TopologyError, match=r"the key 'at' is array<int>, which is not a plain value"):
        one.join(two, on="at", prefix="other_").to_stream().to_print().build()


def test_join_by_default_pairs_keys_of_the_same_names_in_any_order():
    shop = StreamBuilder.data_stream("test", "pairs")
    one, two = (
        shop.from_file(f"{name}.jsonl", schema="a bigint, b bigint", tail=True, name=name).group_by(*keys).count(name)
        for name, keys in (("x", "ab"), ("y", "ba"))
    )
    joined = one.to_table(name="one").join(two.to_table(name="two"), how="outer").to_stream().to_print().build()
    assert "[outer on a, b]" in joined.describe()


SALES = "n bigint, item string, ts bigint"
PRICES = "sku string, price bigint, since bigint, gone boolean"
HISTORY = 20_000


def valued(shop, *, how="left", bad_records="fail", at=("sales.jsonl", "prices.jsonl")):
    """Sales with the price of their time."""
    prices = shop.from_file(at[1], schema=PRICES, tail=True, name="prices", bad_records=bad_records)
    table = prices.to_table("sku", deletes="gone", time_field="since", history=Time.seconds(20), name="price")
    sales = shop.from_file(at[0], schema=SALES, tail=True, name="sales")
    return sales.join_table(table, on={"item": "sku"}, how=how, time_field="ts")


class Versions:
    """All versions of each key; a row of the stream sees those of its batch and of earlier ones."""

    def __init__(self):
        self.versions = defaultdict(dict)

    def batch(self, sales, prices, how="left"):
        for row in prices:
            self.versions[row["sku"]][row["since"]] = None if row["gone"] else row
        for row in sales:
            found = self.valid(row)
            if found or how == "left":
                yield row["n"], found and found["price"], found and found["since"]

    def valid(self, row):
        versions = self.versions.get(row["item"])
        if not versions or row["ts"] is None or row["ts"] < max(versions) - HISTORY:
            return None
        return versions[max(before)] if (before := [at for at in versions if at <= row["ts"]]) else None


def sales_and_prices(seed, batches=6):
    """Sales and prices about the same times, both out of order, some older than the history."""
    rng, clock, number = random.Random(seed), 100_000, 0
    for _ in range(batches):
        clock += rng.choice([0, 3_000, 8_000, 30_000])
        sales, prices = [], []
        for _ in range(rng.randrange(12)):
            since = clock + rng.randrange(-15, 5) * 1000 - rng.choice([0, 0, 0, 40_000])
            prices.append({"sku": rng.choice("abc"), "price": rng.randrange(99), "since": since,
                           "gone": rng.random() < 0.25})  # fmt: skip
        for _ in range(rng.randrange(15)):
            ts = rng.choice([clock + rng.randrange(-40, 10) * 1000, None]) if rng.random() < 0.95 else None
            sales.append({"n": (number := number + 1), "item": rng.choice(["a", "b", "c", "d", None]), "ts": ts})
        yield {"sales": sales, "prices": prices}


def prices_of(rows):
    return Counter((row["n"], row["price"], row["since"]) for row in rows)


@pytest.mark.parametrize(("seed", "how"), [(1, "left"), (2, "inner"), (3, "left")])
def test_each_row_gets_the_version_that_was_valid_at_its_time(follow, seed, how):
    batches, model = [*sales_and_prices(seed)], Versions()
    told = follow(valued(StreamBuilder.data_stream("test", "versions"), how=how), batches)
    for batch, rows in zip(batches, told, strict=True):
        assert prices_of(rows) == Counter(model.batch(**batch, how=how))


def test_versions_follow_the_documented_rules_record_by_record(follow):
    """A late price is a version of its own time, and a row joins what was valid then; a price alone tells nothing."""

    def price(price, since, *, gone=False):
        return {"sku": "a", "price": price, "since": since, "gone": gone}

    def sale(n, ts):
        return {"n": n, "item": "a", "ts": ts}

    told = follow(
        valued(StreamBuilder.data_stream("test", "rules")),
        [
            {"sales": [sale(1, 5_000)], "prices": [price(10, 1_000), price(30, 8_000)]},
            # Out of order: valid from 3 to 8 s. Sale 1 is not told again.
            {"sales": [], "prices": [price(20, 3_000)]},
            {"sales": [sale(2, 5_000), sale(3, 2_999), sale(4, 500)], "prices": []},
            {"sales": [sale(5, 9_999), sale(6, 10_000)], "prices": [price(None, 10_000, gone=True)]},
            # The newest of one time is the one that was read last.
            {"sales": [sale(7, 10_000)], "prices": [price(40, 10_000), price(50, 10_000)]},
            # The history ends 20 s before the newest version.
            {"sales": [sale(8, 9_999), sale(9, 10_000)], "prices": [price(60, 30_000)]},
        ],
        restart=False,
    )
    prices = [sorted((row["n"], row["price"]) for row in rows) for rows in told]
    assert prices == [
        [(1, 10)],
        [],
        [(2, 20), (3, 10), (4, None)],
        [(5, 30), (6, None)],
        [(7, 50)],
        [(8, None), (9, 50)],
    ]


@pytest.mark.canary
def test_a_version_that_comes_behind_an_end_before_the_history_is_not_valid_after_it(follow):
    def price(price, since, *, gone=False):
        return {"sku": "a", "price": price, "since": since, "gone": gone}

    told = follow(
        valued(StreamBuilder.data_stream("test", "ended")),
        [
            {"sales": [], "prices": [price(10, 1_000), price(None, 10_000, gone=True), price(30, 100_000)]},
            {"sales": [], "prices": [price(20, 5_000)]},
            {"sales": [{"n": 1, "item": "a", "ts": 85_000}, {"n": 2, "item": "a", "ts": 100_000}], "prices": []},
        ],
    )
    assert sorted((row["n"], row["price"]) for row in told[2]) == [(1, None), (2, 30)]


def test_versions_after_restarts_a_rescale_and_a_rewind_are_the_same(options, tmp_path):
    files = {name: tmp_path / f"{name}.jsonl" for name in ("sales", "prices")}
    for file in files.values():
        file.touch()

    def pipeline():
        shop = StreamBuilder.data_stream("shop", "versions")
        return valued(shop, at=(files["sales"], files["prices"])).to_delta("valued").build()

    model, want = Versions(), Counter()
    for number, batch in enumerate(sales_and_prices(5)):
        for name, rows in batch.items():
            with files[name].open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        want.update(model.batch(**batch))
        pipeline().run(options)
        if number == 2:
            pipeline().rewind(1, options)
            pipeline().run(options)
        if number == 3:
            pipeline().rescale(3, options)
        assert prices_of(DeltaTable(options.home.table("shop", "valued")).to_pyarrow_table().to_pylist()) == want, (
            number
        )
    (taken,) = snapshot_state(pipeline().topology, options)
    assert DeltaTable(taken.path).count() == len(model.versions)


def test_versions_that_end_by_another_condition_are_other_state():
    def shape(deletes):
        shop = StreamBuilder.data_stream("test", "ends")
        prices = shop.from_file("prices.jsonl", schema=PRICES, tail=True, name="prices")
        table = prices.to_table("sku", deletes=deletes, time_field="since", history=Time.seconds(20))
        sales = shop.from_file("sales.jsonl", schema=SALES, tail=True, name="sales")
        made = sales.join_table(table, on={"item": "sku"}, time_field="ts", name="valued")
        return shape_of(made.to_print().build().topology, "valued")

    assert changes_of(shape("gone"), shape("price IS NULL"))
    assert not changes_of(shape("gone"), shape("gone"))


def test_a_version_without_time_or_key_is_a_bad_record(follow):
    shop = StreamBuilder.data_stream("test", "bad")
    with pytest.raises(BadRecordError, match="no event time"):
        follow(valued(shop), [{"sales": [], "prices": [{"sku": "a", "price": 1, "since": None, "gone": False}]}])


def test_a_table_without_history_is_not_joined_by_time():
    shop = StreamBuilder.data_stream("test", "refused")
    prices = shop.from_file("prices.jsonl", schema=PRICES, tail=True, name="prices")
    sales = shop.from_file("sales.jsonl", schema=SALES, tail=True, name="sales")
    table = prices.to_table("sku", time_field="since", history=Time.hours(1))
    with pytest.raises(TopologyError, match="current rows only"):
        sales.join_table(table.filter("price > 0"), on={"item": "sku"}, time_field="ts")
    with pytest.raises(TopologyError, match="no event time"):
        prices.to_table("sku", history=Time.hours(1), name="other")
