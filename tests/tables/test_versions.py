"""A stream with the version that a table had at the time of a row."""

import json
import random
from collections import Counter, defaultdict

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time
from rs_assets.errors import BadRecordError, TopologyError
from rs_assets.runtime.upkeep.state import snapshot_state

SALES = "n bigint, item string, ts bigint"
PRICES = "sku string, price bigint, since bigint, gone boolean"
HISTORY = 20_000


def both(shop, *, how="left", bad_records="fail", at=("sales.jsonl", "prices.jsonl")):
    """Sales with the price of their time."""
    prices = shop.from_file(at[1], schema=PRICES, tail=True, name="prices", bad_records=bad_records)
    table = prices.to_table("sku", deletes="gone", time_field="since", history=Time.seconds(20), name="price")
    sales = shop.from_file(at[0], schema=SALES, tail=True, name="sales")
    return sales.join_table(table, on={"item": "sku"}, how=how, time_field="ts")


class Model:
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


def history(seed, batches=6):
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


def found(rows):
    return Counter((row["n"], row["price"], row["since"]) for row in rows)


@pytest.mark.parametrize(("seed", "how"), [(1, "left"), (2, "inner"), (3, "left")])
def test_each_row_gets_the_version_that_was_valid_at_its_time(follow, seed, how):
    batches, model = [*history(seed)], Model()
    told = follow(both(StreamBuilder.data_stream("test", "versions"), how=how), batches)
    for batch, rows in zip(batches, told, strict=True):
        assert found(rows) == Counter(model.batch(**batch, how=how))


def test_versions_follow_the_documented_rules_record_by_record(follow):
    """A late price is a version of its own time, and a row joins what was valid then; a price alone tells nothing."""

    def price(price, since, *, gone=False):
        return {"sku": "a", "price": price, "since": since, "gone": gone}

    def sale(n, ts):
        return {"n": n, "item": "a", "ts": ts}

    told = follow(
        both(StreamBuilder.data_stream("test", "rules")),
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


def test_versions_after_restarts_a_rescale_and_a_rewind_are_the_same(options, tmp_path):
    files = {name: tmp_path / f"{name}.jsonl" for name in ("sales", "prices")}
    for file in files.values():
        file.touch()

    def pipeline():
        shop = StreamBuilder.data_stream("shop", "versions")
        return both(shop, at=(files["sales"], files["prices"])).to_delta("valued").build()

    model, want = Model(), Counter()
    for number, batch in enumerate(history(5)):
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
        assert found(DeltaTable(options.home.table("shop", "valued")).to_pyarrow_table().to_pylist()) == want, number
    (taken,) = snapshot_state(pipeline().topology, options)
    assert DeltaTable(taken.path).count() == len(model.versions)


def test_a_version_without_time_or_key_is_a_bad_record(follow):
    shop = StreamBuilder.data_stream("test", "bad")
    with pytest.raises(BadRecordError, match="no event time"):
        follow(both(shop), [{"sales": [], "prices": [{"sku": "a", "price": 1, "since": None, "gone": False}]}])


def test_a_table_without_history_is_not_joined_by_time():
    shop = StreamBuilder.data_stream("test", "refused")
    prices = shop.from_file("prices.jsonl", schema=PRICES, tail=True, name="prices")
    sales = shop.from_file("sales.jsonl", schema=SALES, tail=True, name="sales")
    table = prices.to_table("sku", time_field="since", history=Time.hours(1))
    with pytest.raises(TopologyError, match="current rows only"):
        sales.join_table(table.filter("price > 0"), on={"item": "sku"}, time_field="ts")
    with pytest.raises(TopologyError, match="no event time"):
        prices.to_table("sku", history=Time.hours(1), name="other")
