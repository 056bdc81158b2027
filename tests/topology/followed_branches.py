"""Remedies of branches that part and meet again, and of late rows whose step several queries compute."""

from __future__ import annotations

from rs_assets import Time
from tests.topology.followed_programs import FIELDS, Case, begin, built, hits

BRANCHES = "topology/branches.py"


def called(row):
    return row


def met(times: int, *, cut_at: int = 0) -> object:
    """A stream that parts and meets again so many times, with a durable shuffle after some."""
    stream = hits()
    for number in range(1, times + 1):
        one, other = (stream.filter(f"ms > {least}", name=f"f{number}_{least}") for least in (1, 2))
        stream = one.union(other)
        stream = stream.shuffle(2, strategy="delta") if number == cut_at else stream
    return built(stream)


def joined(one, other):
    return built(one.join(other, on="page", within=Time.minutes(1), time_field="ts", prefix="b_"))


def parted(*, shuffled: bool = False) -> object:
    source = hits()
    one, other = (source.map(called, schema=FIELDS, name=name) for name in "ab")
    return joined(one.shuffle(2, strategy="delta") if shuffled else one, other)


def parted_in_sql() -> object:
    source = hits()
    return joined(source.filter("ms > 1", name="a"), source.filter("ms > 2", name="b"))


def read_twice() -> object:
    builder = begin("twice")
    one, other = (builder.from_file("in.jsonl", schema=FIELDS, name=name) for name in "xy")
    return joined(one.map(called, schema=FIELDS, name="a"), other.map(called, schema=FIELDS, name="b"))


CASES = [
    Case(
        f"{BRANCHES}::_check_number",
        lambda: met(8),
        "put .shuffle(n, strategy='delta') between two of the steps where branches meet",
        lambda: met(8, cut_at=4),
    ),
    Case(f"{BRANCHES}::_refusal", parted, "write the steps between in SQL", parted_in_sql),
    Case(f"{BRANCHES}::_refusal", parted, "read the source twice, under two names", read_twice),
    Case(
        f"{BRANCHES}::_refusal",
        parted,
        "put .shuffle(n, strategy='delta') after one side",
        lambda: parted(shuffled=True),
    ),
]
