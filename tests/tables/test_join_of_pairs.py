"""Joins of tables by any fields, of which each row has any number of partners, against dictionaries."""

import itertools
import json
import random

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from tests.tables.model import Told, net

ORDERS = "id bigint, user bigint, ms bigint, gone boolean"
PAYMENTS = "no bigint, payer bigint, sum bigint, gone boolean"
OWN, THEIRS = ("id", "user", "ms"), ("no", "payer", "sum")


def both(folder="."):
    shop = StreamBuilder.data_stream("test", "pairs")
    orders = shop.from_file(f"{folder}/o.jsonl", schema=ORDERS, tail=True, name="orders")
    payments = shop.from_file(f"{folder}/p.jsonl", schema=PAYMENTS, tail=True, name="payments")
    return (
        orders.to_table("id", deletes="gone", name="left").map_values("user", "ms"),
        payments.to_table("no", deletes="gone", name="right").map_values("payer", "sum"),
    )


def histories(seed, batches=4):
    rng = random.Random(seed)

    def row(key, other, value):
        user = rng.choice([None, *range(5)])
        return {key: rng.randrange(12), other: user, value: rng.randrange(3), "gone": rng.random() < 0.25}

    return [
        {
            "orders": [row(*OWN) for _ in range(rng.randrange(18))],
            "payments": [row(*THEIRS) for _ in range(rng.randrange(18))],
        }
        for _ in range(batches)
    ]


def after(tables, batch):
    made = []
    for table, name, fields in zip(tables, ("orders", "payments"), (OWN, THEIRS), strict=True):
        rows = dict(table)
        for row in batch[name]:
            rows.pop(row[fields[0]], None)
            if not row["gone"]:
                rows[row[fields[0]]] = {field: row[field] for field in fields}
        made.append(rows)
    return tuple(made)


def pairs_of(orders, payments, how, on=(("user", "payer"),)):
    """The rows of the join by the keys of both sides."""
    met = {
        (one, two)
        for (one, order), (two, payment) in itertools.product(orders.items(), payments.items())
        if all(order[mine] is not None and order[mine] == payment[theirs] for mine, theirs in on)
    }
    keys = set(met)
    if how in ("left", "outer"):
        keys |= {(one, None) for one in orders.keys() - {one for one, _ in met}}
    if how == "outer":
        keys |= {(None, two) for two in payments.keys() - {two for _, two in met}}
    nothing = dict.fromkeys(OWN), dict.fromkeys(THEIRS)
    return {(one, two): {**orders.get(one, nothing[0]), **payments.get(two, nothing[1])} for one, two in keys}


def prefixed(rows):
    """The rows with a prefix for the fields of payments."""
    return {key: {f"p_{k}" if k in THEIRS else k: v for k, v in row.items()} for key, row in rows.items()}


def without_payer(rows):
    """The rows as without a prefix: the payer is the user, also of a payment without an order."""
    return {
        key: {name: row["payer"] if name == "user" and key[0] is None else row[name] for name in row if name != "payer"}
        for key, row in rows.items()
    }


CASES = [
    *((how, "p_", {"user": "payer"}, prefixed) for how in ("inner", "left", "outer")),
    *((how, None, {"user": "payer"}, without_payer) for how in ("inner", "left", "outer")),
    ("outer", "p_", {"user": "payer", "ms": "sum"}, prefixed),
    ("outer", "p_", {"user": "no"}, prefixed),
]


@pytest.mark.parametrize(("how", "prefix", "on", "shown"), CASES)
def test_pairs_of_random_histories_equal_those_of_dictionaries_after_each_batch(follow, how, prefix, on, shown):
    batches = histories(f"{how} {prefix} {on}")
    orders, payments = both()
    tables, expected, told = ({}, {}), {}, Told()
    made = orders.join(payments, on=on, how=how, prefix=prefix)
    assert made.keys == ("id", f"{prefix or ''}no")
    for batch, changes in zip(batches, follow(made.to_stream(), batches), strict=True):
        tables = after(tables, batch)
        before, expected = expected, shown(pairs_of(*tables, how, tuple(on.items())))
        told.add(changes)
        assert told.equals(expected.values())
        assert len(changes) == net(before, expected)


def test_a_batch_without_effect_on_a_pair_tells_nothing(follow):
    orders, payments = both()
    order = {"id": 1, "user": 1, "ms": 0, "gone": False}
    paid = {"no": 1, "payer": 1, "sum": 5, "gone": False}
    told = follow(
        orders.join(payments, on={"user": "payer"}, how="left").to_stream(),
        [
            {"orders": [order], "payments": []},
            {"orders": [], "payments": [paid]},
            {"orders": [order], "payments": [paid]},
            {"orders": [], "payments": [{**paid, "no": 2}]},
            {"orders": [], "payments": [{**paid, "gone": True}]},
            {"orders": [], "payments": [{**paid, "no": 2, "gone": True}]},
        ],
        restart=False,
    )
    assert [len(changes) for changes in told] == [1, 2, 0, 1, 1, 2]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_pairs_flow_through_a_group_and_a_ranking(follow, how):
    orders, payments = both()
    paid = orders.join(payments, on={"user": "payer"}, how=how, prefix="p_")
    groups = paid.group_by("ms").count("n").sum("p_sum", "total").max("p_no", "last").to_stream()
    batches, tables, told = histories(f"group {how}"), ({}, {}), Told()
    for batch, changes in zip(batches, follow(groups, batches), strict=True):
        tables = after(tables, batch)
        expected = {}
        for row in prefixed(pairs_of(*tables, how)).values():
            if row["ms"] is not None:
                expected.setdefault(row["ms"], []).append(row)
        told.add(changes)
        sums = {ms: [row["p_sum"] for row in rows if row["p_sum"] is not None] for ms, rows in expected.items()}
        last = {ms: [row["p_no"] for row in rows if row["p_no"] is not None] for ms, rows in expected.items()}
        assert told.equals(
            {
                "ms": ms,
                "n": len(rows),
                "total": sum(sums[ms]) if sums[ms] else None,
                "last": max(last[ms], default=None),
            }
            for ms, rows in expected.items()
        )


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_delta_table_holds_exactly_the_pairs_also_those_with_half_a_key(how, options, tmp_path):
    orders, payments = both(tmp_path)
    pipeline = orders.join(payments, on={"user": "payer"}, how=how).to_delta("pairs").build()
    tables = {}, {}
    for batch in histories(f"delta {how}", batches=3):
        for name, file in (("orders", "o.jsonl"), ("payments", "p.jsonl")):
            with (tmp_path / file).open("a") as lines:
                lines.writelines(f"{json.dumps(row)}\n" for row in batch[name])
        pipeline.run(options)
        tables = after(tables, batch)
        rows = DeltaTable(options.home.table("test", "pairs")).to_pyarrow_table().to_pylist()
        told = Told()
        told.add({**row, "retracted": False} for row in rows)
        assert told.equals(without_payer(pairs_of(*tables, how)).values())


def test_the_key_of_a_pair_has_no_field_twice(follow):
    orders, payments = both()
    days = payments.group_by("payer", "sum").count("n").to_table(name="days")
    made = orders.join(days, on={"user": "payer"}, how="left")
    assert made.keys == ("id", "user", "sum")
    batch = {
        "orders": [{"id": n, "user": n % 2, "ms": 0, "gone": False} for n in range(3)],
        "payments": [{"no": n, "payer": 0, "sum": n % 2, "gone": False} for n in range(3)],
    }
    (changes,) = follow(made.to_stream(), [batch])
    shown = sorted((row["id"], row["user"], row["sum"], row["n"]) for row in changes)
    assert shown == [(0, 0, 0, 2), (0, 0, 1, 1), (1, 1, None, None), (2, 0, 0, 2), (2, 0, 1, 1)]


def test_keys_of_one_name_need_a_prefix():
    shop = StreamBuilder.data_stream("test", "named")
    one, two = (
        shop.from_array([{"id": 1, "user": 1, f"v_{name}": 1}], name=name).to_table("id", name=f"table_{name}")
        for name in "ab"
    )
    with pytest.raises(TopologyError, match="prefix="):
        one.join(two, on="user").to_stream().to_print().build()
    assert one.join(two, on="user", prefix="b_").keys == ("id", "b_id")


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_rows_whose_keys_are_half_null_are_no_partners(follow, how):
    shop = StreamBuilder.data_stream("test", "halves")

    def half(key, name):
        tables = (
            shop.from_file(f"{one}.jsonl", schema=f"{one} bigint, x_{one} bigint", tail=True, name=one).to_table(
                one, name=f"table_{one}"
            )
            for one in (key, f"{key}{key}")
        )
        left, right = tables
        return left.join(right, on={f"x_{key}": f"x_{key}{key}"}, how="left", name=name)

    one, two = half("a", "one"), half("b", "two")
    assert (one.keys, two.keys) == (("a", "aa"), ("b", "bb"))
    made = one.join(two, on={"a": "b", "aa": "bb"}, how=how, prefix="p_", name="halves")
    batch = {"a": [{"a": n, "x_a": n} for n in (1, 2)], "aa": [{"aa": 7, "x_aa": 2}]}
    batch |= {"b": [{"b": n, "x_b": n} for n in (1, 2)], "bb": [{"bb": 7, "x_bb": 2}]}
    (changes,) = follow(made.to_stream(), [batch])
    shown = {(row["a"], row["aa"], row["p_b"], row["p_bb"]) for row in changes}
    alone = {"inner": set(), "left": {(1, None, None, None)}}
    alone["outer"] = alone["left"] | {(None, None, 1, None)}
    assert shown == {(2, 7, 2, 7), *alone[how]}
    assert len(changes) == len(shown)
    assert made.keys == (("a", "aa", "p_b", "p_bb") if how == "outer" else ("a", "aa"))


def test_an_outer_join_of_keys_that_may_be_null_needs_a_prefix():
    orders, payments = both()
    halves = orders.join(payments, on={"user": "payer"}, how="left", prefix="p_")
    again = halves.map_values("user AS who", name="again")
    with pytest.raises(TopologyError, match="prefix='other_'"):
        halves.map_values("ms", name="ms").join(again, how="outer", name="both")
    made = halves.map_values("ms", name="also").join(again, how="outer", prefix="other_", name="both")
    assert made.keys == ("id", "p_no", "other_id", "other_p_no")
