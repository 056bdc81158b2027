"""The first rows of each group of a table, against sorted dictionaries."""

import pytest

from rs_assets.errors import TopologyError
from tests.tables.model import Told, histories, upserted
from tests.tables.test_to_table import source


def test_top_n_follows_rows_that_come_change_and_go(follow):
    orders = source("id bigint, user string, ms bigint, gone boolean").to_table("id", deletes="gone")
    slowest = orders.map_values("user", "ms").group_by("user").top_n(2, by="ms", rank="place")
    told = follow(
        slowest.to_stream(),
        [
            [{"id": n, "user": "ann", "ms": n, "gone": False} for n in (1, 2, 3)],
            [{"id": 2, "user": "ann", "ms": 9, "gone": False}],
            [{"id": 2, "user": None, "ms": None, "gone": True}],
        ],
    )
    assert sorted((row["place"], row["retracted"], row["id"], row["ms"]) for row in told[0]) == [
        (1, False, 3, 3),
        (2, False, 2, 2),
    ]
    assert sorted((row["place"], row["retracted"], row["id"], row["ms"]) for row in told[1]) == [
        (1, False, 2, 9),
        (1, True, 3, 3),
        (2, False, 3, 3),
        (2, True, 2, 2),
    ]
    # The next one takes the place of the one that goes.
    assert sorted((row["place"], row["retracted"], row["id"], row["ms"]) for row in told[2]) == [
        (1, False, 3, 3),
        (1, True, 2, 9),
        (2, False, 1, 1),
        (2, True, 3, 3),
    ]


@pytest.mark.parametrize("rank", ["place", None])
def test_top_n_of_a_random_history_equals_sorted_rows(follow, rank):
    """Rows move between groups, values are null, and most are equal."""
    batches = histories(31, batches=4, size=60)
    orders = source().to_table("id", deletes="gone").map_values("user", "ms")
    stream = orders.group_by("user").top_n(3, by="ms", rank=rank).to_stream()
    table, total = {}, Told()
    for rows, changes in zip(batches, follow(stream, batches), strict=True):
        table = upserted(table, rows)
        total.add(changes)
        assert total.equals(first(table.values(), 3, rank))


def first(table, n, rank):
    """The rows with the greatest values of each user, null last, of equal ones those with the least keys."""
    groups = {}
    for row in sorted(table, key=lambda row: (row["ms"] is None, -(row["ms"] or 0), row["id"])):
        if row["user"] is not None:
            groups.setdefault(row["user"], []).append({name: row[name] for name in ("id", "user", "ms")})
    numbered = ((place, row) for rows in groups.values() for place, row in enumerate(rows[:n], 1))
    return [row | ({rank: place} if rank else {}) for place, row in numbered]


def test_top_n_is_a_table_whose_rows_are_grouped(follow):
    """Nexmark's q6 as a table: the mean of the last orders of each user."""
    orders = source("id bigint, user string, ms bigint").to_table("id")
    means = orders.group_by("user").top_n(2, by="id").group_by("user").avg("ms", "mean").count("n")
    batches = [[{"id": n, "user": "ann", "ms": 10 * n} for n in (1, 2)], [{"id": 3, "user": "ann", "ms": 100}]]
    total = Told()
    for changes in follow(means.to_stream(), batches):
        total.add(changes)
    assert total.equals([{"user": "ann", "mean": 60.0, "n": 2}])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda table: table.group_by("user").top_n(0, by="ms"), "a number of rows from 1"),
        (lambda table: table.group_by("user").top_n(3, by=()), "a field to rank by"),
        (lambda table: table.group_by("user").top_n(3, by="nope"), "nope"),
        (lambda table: table.group_by().top_n(3, by="ms"), "ranks the rows of no group"),
        (lambda table: table.group_by("user").count("n").top_n(3, by="ms"), "a group that has aggregates"),
        (lambda table: table.group_by("user").top_n(3, by="ms", rank="ID"), "two fields"),
    ],
)
def test_top_n_refuses_what_it_cannot_rank(make, why):
    with pytest.raises(TopologyError, match=why):
        make(source().to_table("id")).to_stream().to_print().build()


def test_top_n_of_a_stream_is_refused():
    with pytest.raises(TopologyError, match="whose rows have no key"):
        source().group_by("user").top_n(3, by="ms")
