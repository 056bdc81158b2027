"""The checker of the ledger misses nothing, and a short ledger is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.torture.ledger import Ledger, planned
from tests.torture.ledger_check import Entry, Seen, faults

SEED = 4
COMMITTED = [Entry(p, n, f"a{n // 2}", f"k{p}.{n % 2}") for p in range(2) for n in range(6)]
SEEN = [Seen(entry.number % 2, number, entry) for number, entry in enumerate(COMMITTED)]


def with_entry(number: int, **changed: object) -> list[Seen]:
    return [replace(s, entry=replace(s.entry, **changed)) if s.offset == number else s for s in SEEN]


def test_what_is_right_has_no_fault() -> None:
    assert faults(COMMITTED, SEEN) == []


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (SEEN[:-1], ["1 lost"]),
        ([*SEEN, replace(SEEN[-1], offset=99)], ["1 doubled", "1 out of order within a key"]),
        ([*SEEN, replace(SEEN[-1], offset=99, entry=Entry(1, 5, "x", "k"))], ["1 aborted, and seen"]),
        ([*SEEN, replace(SEEN[-1], offset=99, entry=Entry(1, 6, "x", "k"))], ["1 never committed"]),
        (with_entry(3, attempt="x"), ["1 lost", "1 aborted, and seen"]),
        ([*SEEN[:-1], replace(SEEN[-1], offset=3)], ["1 read again"]),
        ([*SEEN[:-1], replace(SEEN[-1], place=0, offset=99)], ["1 under two partitions"]),
        ([SEEN[2], *(replace(s, offset=s.offset + 9) for s in SEEN if s.offset != 2)], ["1 out of order within a key"]),
    ],
)
def test_each_fault_is_told(seen: list[Seen], told: list[str]) -> None:
    assert [fault.partition(":")[0] for fault in faults(COMMITTED, seen)] == told


def test_input_with_holes_proves_nothing() -> None:
    assert faults(COMMITTED[1:], SEEN[1:]) == ["1 input with holes: partition 0"]


def test_a_seed_has_its_kills() -> None:
    assert planned(7, 20) == planned(7, 20)
    assert planned(7, 20) != planned(8, 20)
    assert planned(7, 20)[:5] == planned(7, 5)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_short_ledger_is_right(tmp_path: Path) -> None:
    # The pipeline is killed at the end in any case.
    kills = planned(SEED, 2)
    assert {kill.victim for kill in kills} == {"producer", "broker"}
    result = Ledger(tmp_path, say=lambda _: None).kept(kills)
    assert result.faults == (), f"seed {SEED}"
    assert result.killed == {"producer": 1, "broker": 1, "pipeline": 1}
    assert result.entries > 0
