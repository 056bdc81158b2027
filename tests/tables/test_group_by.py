"""Aggregates over tables, from which rows are taken back."""

import math
import random
from collections import Counter
from decimal import Decimal

import pytest

from rs_assets.errors import TopologyError, UnknownFieldError
from tests.tables.model import Told, grouped, histories, net, upserted
from tests.tables.test_to_table import source


def test_group_by_moves_a_row_from_one_group_to_another(follow):
    orders = source("id bigint, user string, ms bigint").to_table("id")
    told = follow(
        orders.group_by("user").count("n").sum("ms", "total").to_stream(),
        [
            [{"id": 1, "user": "ann", "ms": 5}, {"id": 2, "user": "ann", "ms": 7}],
            [{"id": 1, "user": "bo", "ms": 6}],
            [{"id": 2, "user": "bo", "ms": None}],
        ],
    )
    assert told[0] == [{"user": "ann", "n": 2, "total": 12, "retracted": False}]
    assert sorted(told[1], key=str) == [
        {"user": "ann", "n": 1, "total": 7, "retracted": False},
        {"user": "ann", "n": 2, "total": 12, "retracted": True},
        {"user": "bo", "n": 1, "total": 6, "retracted": False},
    ]
    # A group without rows goes.
    assert sorted(told[2], key=str) == [
        {"user": "ann", "n": 1, "total": 7, "retracted": True},
        {"user": "bo", "n": 1, "total": 6, "retracted": True},
        {"user": "bo", "n": 2, "total": 6, "retracted": False},
    ]


@pytest.mark.parametrize("function", ["max", "sum"])
def test_a_row_that_changes_no_aggregate_of_its_group_is_no_change(follow, function):
    groups = source("id bigint, user string, ms bigint").to_table("id").group_by("user")
    row = {"id": 1, "user": "ann", "ms": 5}
    batches = [[row], [{**row, "id": 2, "ms": None}], [{**row, "id": 2, "user": None}], [{**row, "user": "bo"}]]
    told = follow(getattr(groups, function)("ms").to_stream(), batches)
    assert [sorted((each["user"], each["retracted"]) for each in changes) for changes in told] == [
        [("ann", False)],
        [],
        [],
        [("ann", True), ("bo", False)],
    ]


def test_the_least_whole_numbers_can_be_subtracted(follow):
    orders = source("id bigint, user string, tiny tinyint, ms int").to_table("id").group_by("user")
    least = {"id": 1, "user": "ann", "tiny": -128, "ms": -(2**31)}
    told = follow(
        orders.sum("tiny").sum("ms").avg("ms", "mean").to_stream(),
        [[least, {**least, "id": 2}], [{**least, "ms": 1, "tiny": 1}]],
    )
    assert [row for row in told[1] if not row["retracted"]] == [
        {"user": "ann", "tiny": -127, "ms": 1 - 2**31, "mean": (1 - 2**31) / 2, "retracted": False}
    ]


def test_decimals_of_38_digits_are_subtracted_with_all_of_them(follow):
    """Spark's minus keeps 34 digits."""
    most, least = Decimal("1234567890123456789012345678.1234567891"), Decimal("-0.0000000001")
    orders = source("id bigint, user string, v decimal(38,10)").to_table("id").group_by("user")
    row = {"id": 1, "user": "ann", "v": most}
    told = follow(
        orders.sum("v").to_stream(),
        [[row, {**row, "id": 2, "v": least}, {**row, "id": 3}], [{**row, "user": "bo"}], [{**row, "id": 3, "v": None}]],
    )
    assert [{row["user"]: row["v"] for row in changes if not row["retracted"]} for changes in told] == [
        {"ann": Decimal("2469135780246913578024691356.2469135781")},
        {"ann": Decimal("1234567890123456789012345678.1234567890"), "bo": most},
        {"ann": least},
    ]


SUBTRACTED = {"n": "count(*)", "total": "sum(ms)", "mean": "avg(ms)", "ratios": "sum(ratio)"}
KEPT = {
    "n": "count(*)",
    "least": "min(ms)",
    "most": "max(ms)",
    "kinds": "cast(size(collect_set(ms)) as bigint)",
    "all": "collect_list(ms)",
}


@pytest.mark.parametrize("columns", [SUBTRACTED, KEPT], ids=["subtracted", "kept"])
def test_group_by_of_a_random_history_equals_the_groups_of_a_dictionary(follow, columns):
    batches = histories(7)
    stream = source().to_table("id", deletes="gone").group_by("user").aggregate(**columns).to_stream()
    table, told, groups = {}, Told(), {}
    for rows, changes in zip(batches, follow(stream, batches), strict=True):
        table = upserted(table, rows)
        before, groups = (
            groups,
            {user: {name: row[name] for name in ("user", *columns)} for user, row in grouped(table).items()},
        )
        told.add(changes)
        assert told.equals(groups.values())
        assert len(changes) == net(before, groups) or "ratios" in columns


def test_group_by_methods_equal_the_aggregates_of_sql(follow):
    orders = source().to_table("id", deletes="gone").group_by("user")
    made = orders.count("n").min("ms", "least").max("ms", "most").count_distinct("ms", "kinds").collect("ms", "all")
    batches = histories(9, batches=2)
    told = Told()
    for changes in follow(made.to_stream(), batches):
        told.add(changes)
    table = upserted(upserted({}, batches[0]), batches[1])
    assert told.equals({name: row[name] for name in ("user", *KEPT)} for row in grouped(table).values())


def test_group_by_of_a_group_by_follows(follow):
    orders = source("id bigint, user string").to_table("id", name="orders")
    sizes = (
        orders.group_by("user").count("n").to_table(name="users").group_by("n").count("users").to_table(name="sizes")
    )
    told = follow(
        sizes.to_stream(),
        [[{"id": 1, "user": "a"}, {"id": 2, "user": "b"}], [{"id": 3, "user": "b"}], [{"id": 1, "user": "b"}]],
    )
    total = Told()
    for changes in told:
        total.add(changes)
    assert total.equals([{"n": 3, "users": 1}])


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda table: table.group_by("user").to_table(), TopologyError, "aggregates nothing"),
        (lambda table: table.group_by().count("n").to_table(), TopologyError, "at least one field"),
        (lambda table: table.group_by("nope").count("n").to_table(), UnknownFieldError, "nope"),
        (lambda table: table.group_by("user").sum("user").to_table(), TopologyError, "two columns|user"),
        (lambda table: table.group_by("user").count("USER").to_table(), TopologyError, "two columns"),
        (lambda table: table.group_by("user").aggregate(x="max(rand())"), TopologyError, "would differ"),
    ],
)
def test_group_by_refuses_what_it_cannot_compute(make, error, why):
    with pytest.raises(error, match=why):
        make(source().to_table("id")).to_stream().to_print().build()


def test_group_by_of_a_stream_follows_its_rows(follow):
    clicks = source("page string, ms bigint").group_by("page").count("n").max("ms", "most").collect("ms", "all")
    told = follow(
        clicks.to_stream(),
        [[{"page": "/a", "ms": 5}, {"page": None, "ms": 9}], [{"page": "/a", "ms": 3}, {"page": "/b", "ms": 1}]],
    )
    assert told[0] == [{"page": "/a", "n": 1, "most": 5, "all": [5], "retracted": False}]
    assert sorted(told[1], key=str) == [
        {"page": "/a", "n": 1, "most": 5, "all": [5], "retracted": True},
        {"page": "/a", "n": 2, "most": 5, "all": [3, 5], "retracted": False},
        {"page": "/b", "n": 1, "most": 1, "all": [1], "retracted": False},
    ]


def test_collect_orders_by_the_values_themselves(follow):
    orders = source("id bigint, user string, ms bigint, size bigint").to_table("id").group_by("user")
    rows = [{"id": n, "user": "ann", "ms": n, "size": 9 - n} for n in range(3)]
    assert follow(orders.max("ms", "most").collect("size", "sizes").to_stream(), [rows]) == [
        [{"user": "ann", "most": 2, "sizes": [7, 8, 9], "retracted": False}]
    ]


def test_group_by_of_a_stream_is_grouped_again(follow):
    pages = source().group_by("user", "ms").count("n").max("ratio", "most").to_table(name="pages")
    sizes = pages.group_by("n").count("users").min("ms", "least").to_table(name="sizes")
    batches = histories(21, batches=4, size=60)
    total, seen = Told(), []
    for rows, changes in zip(batches, follow(sizes.to_stream(), batches), strict=True):
        total.add(changes)
        seen += [(row["user"], row["ms"]) for row in rows if row["user"] is not None and row["ms"] is not None]
        groups = {}
        for (_, ms), n in Counter(seen).items():
            groups.setdefault(n, []).append(ms)
        assert total.equals([{"n": n, "users": len(ms), "least": min(ms)} for n, ms in groups.items()])


def test_group_by_takes_minus_zero_for_zero(follow):
    """A row whose 0.0 becomes -0.0 does not change, and goes as one of both."""
    levels = source("id bigint, user string, ratio double, gone boolean").to_table("id", deletes="gone")
    levels = levels.map_values("user", "ratio * 0 AS level").group_by("user").max("level", "most").count("n")
    one, other = ({"id": key, "user": "ann", "ratio": 1.0, "gone": False} for key in (1, 2))
    batches = [[one, other], [{**one, "ratio": -1.0}], [{**one, "gone": True}], [{**other, "ratio": -2.0}]]
    total = Told()
    for changes in follow(levels.to_stream(), batches):
        total.add(changes)
    assert total.equals([{"user": "ann", "most": 0.0, "n": 1}])


def test_sums_of_bigints_only_overflow_as_results(follow):
    """Rows come and go in any order, so sums on the way may be greater than a bigint."""
    great = 2**63 - 1
    orders = source("id bigint, user string, ms bigint").to_table("id").group_by("user")
    told = follow(
        orders.sum("ms", "total").avg("ms", "mean").to_stream(),
        [
            [{"id": n, "user": "ann", "ms": great if n % 2 else -great - 1} for n in range(6)],
            [{"id": n, "user": "ann", "ms": -great - 1 if n % 2 else great} for n in range(6)],
            [{"id": n, "user": "ann", "ms": great if n == 1 else None} for n in range(6)],
        ],
    )
    results = [row["total"] for changes in told for row in changes if not row["retracted"]]
    assert results == [-3, great]


def test_sums_of_doubles_are_those_of_the_rows_that_are_left(follow):
    """A value that goes leaves no trace: neither an infinite sum, nor the digits that it has hidden."""
    orders = source("id bigint, user string, v double").to_table("id").group_by("user")
    changes = [
        {1: 1e308, 2: 1e308, 3: 0.1}, {1: 1e17, 2: 0.2}, {1: 5e-324}, {2: float("nan")}, {2: -0.1}, {3: float("inf")},
        {1: 1.0, 3: -1.0},
    ]  # fmt: skip
    batches = [[{"id": key, "user": "ann", "v": v} for key, v in batch.items()] for batch in changes]
    told = follow(orders.sum("v", "total").avg("v", "mean").to_stream(), batches)
    totals = [(row["total"], row["mean"]) for batch in told for row in batch if not row["retracted"]]
    sums = [float("inf"), 1e17, 0.1 + 0.2, float("nan"), 5e-324, float("inf"), -0.1]
    assert repr(totals) == repr([(total, total / 3) for total in sums])


def test_sums_of_doubles_of_all_sizes_equal_those_of_python(follow):
    rng, rows, total = random.Random(11), {}, Told()
    orders = source("id bigint, user string, v double").to_table("id").group_by("user")
    batches = []
    for _ in range(4):
        values = [math.ldexp(rng.uniform(-1, 1), rng.randrange(-1080, 1000)) for _ in range(30)]
        batches.append([{"id": rng.randrange(40), "user": rng.choice("ab"), "v": v} for v in values])
    for batch, told in zip(batches, follow(orders.sum("v", "total").to_stream(), batches), strict=True):
        total.add(told)
        rows |= {row["id"]: row for row in batch}
        groups = {user: [row["v"] for row in rows.values() if row["user"] == user] for user in "ab"}
        assert total.equals([{"user": user, "total": math.fsum(of)} for user, of in groups.items() if of])


def test_a_mean_beside_kept_rows_is_a_double(follow):
    price = 10**32
    orders = source("id bigint, user string, price decimal(38,2)").to_table("id").group_by("user")
    told = follow(orders.avg("price", "mean").max("id", "last").to_stream(), [[{"id": 1, "user": "a", "price": price}]])
    assert told == [[{"user": "a", "mean": 1e32, "last": 1, "retracted": False}]]


def test_distinct_values_in_sql_are_counted_or_refused(follow):
    orders = source("id bigint, user string, ms bigint").to_table("id").group_by("user")
    rows = [{"id": n, "user": "a", "ms": n % 2} for n in range(4)]
    counted = orders.aggregate(kinds="count(DISTINCT ms)", size="size(collect_set(ms))")
    assert follow(counted.to_stream(), [rows]) == [[{"user": "a", "kinds": 2, "size": 2, "retracted": False}]]
    with pytest.raises(TopologyError, match=r"size\(collect_set\(ms\)\)"):
        orders.aggregate(total="sum(DISTINCT ms)")


def test_star_in_an_aggregate_of_a_table_stands_for_its_fields_alone(follow):
    """Rows that come and go have hidden fields."""
    orders = source("id bigint, user string").to_table("id").group_by("user")
    made = orders.aggregate(newest="max(to_json(struct(*)))", n="count(*)")
    told = follow(made.to_stream(), [[{"id": 1, "user": "a"}], [{"id": 2, "user": "a"}]])
    assert [row["newest"] for row in told[0]] == ['{"id":1,"user":"a"}']
    assert [(row["newest"], row["n"]) for row in told[1] if not row["retracted"]] == [('{"id":2,"user":"a"}', 2)]
