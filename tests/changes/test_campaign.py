"""Campaigns over the changes of a database: random transactions beside kills, and what their check finds.

RS_REQUIRE_SERVERS=1 python -m pytest -m faults tests/changes
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.changes.campaign import Campaign, planned
from tests.changes.databases import DATABASES
from tests.changes.replay import Change, Seen, Version, faults
from tests.changes.transactions import MARIADB, POSTGRES, transaction


def at(second):
    return datetime(2026, 1, 5, 10, 0, second, tzinfo=UTC)


# 1 is there before the snapshot; 2 comes, is moved to 3, and all is emptied and filled with 3.
JOURNAL = (
    Change("insert", 1, ("a",), at(1)),
    Change("insert", 2, ("b",), at(2)),
    Change("update", 1, ("c",), at(3)),
    Change("delete", 2, ("b",), at(4)),
    Change("insert", 3, ("d",), at(4)),
    Change("delete", 1, ("c",), at(5)),
    Change("truncate", None, (None,), at(5)),
    Change("insert", 3, ("e",), at(5)),
)
SEEN = Seen(
    changes=(Change("snapshot", 1, ("a",), at(1)), *JOURNAL[1:]),
    places=[(number, 0) for number in range(len(JOURNAL))],
    journal=JOURNAL,
    table={3: ("e",)},
    mirror={3: ("e",)},
    history=(
        Version(1, ("a",), at(1), at(3), current=False),
        Version(1, ("c",), at(3), at(5), current=False),
        Version(2, ("b",), at(2), at(4), current=False),
        Version(3, ("d",), at(4), at(5), current=False),
        Version(3, ("e",), at(5), None, current=True),
    ),
)


def test_a_campaign_that_went_well_has_no_faults():
    assert faults(SEEN) == []


WRONG = {
    "a lost change": ({"changes": (*SEEN.changes[:2], *SEEN.changes[3:])}, "are not those of the journal"),
    "a change that comes twice": ({"changes": (*SEEN.changes, SEEN.changes[-1])}, "not in order"),
    "a place that comes twice": ({"places": (*SEEN.places, (0, 0))}, "two changes"),
    "another time": ({"changes": (*SEEN.changes[:-1], Change("insert", 3, ("e",), at(6)))}, "of the journal"),
    "no TRUNCATE": ({"changes": (*SEEN.changes[:6], *SEEN.changes[7:])}, "not in order"),
    "no snapshot": ({"changes": SEEN.changes[1:]}, "of the journal"),
    "an old snapshot": ({"changes": (Change("snapshot", 1, ("z",), at(1)), *SEEN.changes[1:])}, "began with"),
    "a stale mirror": ({"mirror": {3: ("d",)}}, "the mirror is not the table"),
    "a row too much": ({"mirror": {1: ("c",), 3: ("e",)}}, "too much"),
    "a version less": ({"history": SEEN.history[1:]}, "missing: Version"),
    "a version twice": ({"history": (*SEEN.history, SEEN.history[0])}, "too much: Version"),
    "a table that went on": ({"table": {3: ("f",)}}, "do not lead to the table"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_campaign_is_found(wrong):
    change, said = WRONG[wrong]
    assert said in "\n".join(faults(replace(SEEN, **change)))


@pytest.mark.parametrize("dialect", [POSTGRES, MARIADB], ids=["postgres", "mariadb"])
def test_a_seed_has_its_transactions_and_its_kills(dialect):
    made = [transaction(7, number, dialect) for number in range(3_000)]
    assert made == [transaction(7, number, dialect) for number in range(3_000)]
    text = "\n".join(map("; ".join, made))
    for word in ("ROLLBACK TO", "; ROLLBACK\n", "ADD COLUMN", "DROP COLUMN", "TRUNCATE", "SET id =", "DELETE"):
        assert word in text
    assert planned(7, 20)[:5] == planned(7, 5)


CASES = [(kind, *sizes) for kind in DATABASES for sizes in ((3_000, 2, 3), (100_000, 20, 1))]


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "count", "kills", "seed"), CASES)
def test_a_mirror_and_a_history_beside_kills_equal_the_table_and_a_replay(tmp_path, request, kind, count, kills, seed):
    request.getfixturevalue(kind)
    result = Campaign(DATABASES[kind](), tmp_path, say=print).done(seed, count, planned(seed, kills))
    print(f"{kind}, seed {seed}: {result}")
    assert not result.faults
    assert sum(result.killed.values()) == kills
