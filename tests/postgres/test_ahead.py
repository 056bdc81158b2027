"""A part that lands while Spark computes the batch before it: kills, errors, and how much lies ahead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rs_assets.connectors.changes.landed import Landed
from rs_assets.connectors.own.plan import loaded
from rs_assets.errors import SourceReadError
from tests.postgres.ahead import MOMENTS
from tests.postgres.plain import Source
from tests.postgres.test_landing import shop

__all__ = ["shop"]
ROOT = Path(__file__).parents[2]


def added(number):
    """A transaction of ten rows, each of which is a part."""
    return f"INSERT INTO t SELECT n, 'part {number}' FROM generate_series({number * 10}, {number * 10 + 9}) n"


@pytest.fixture
def source(shop, database, tmp_path):
    made = Source(database, tmp_path / "landed", rows=10)
    shop("INSERT INTO t VALUES (1, 'old')")
    made.read()
    return made


def confirmed(source):
    with source.server.connected() as connection:
        return source.slot.confirmed(connection)


def test_one_part_lands_while_a_batch_is_computed(shop, source):
    for number in range(1, 5):
        shop(added(number))
    landed, plan, at = Landed(source.folder / source.split), source.plan(), source.offsets
    plan.freeze()
    for number in range(1, 5):
        end = plan.next(at, 10)
        plan._ahead.wait()
        assert {row["state"] for row in source.batch(plan, at, end)} == {f"part {number}"}
        assert landed.end() - end[source.split].next == (10 if number < 4 else 0)
        # Not before it is on disk.
        assert confirmed(source) <= landed.reached()
        at = end
    assert plan.next(at, 10) == at


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_part_that_lay_ahead_of_a_kill_is_neither_lost_nor_doubled(shop, database, tmp_path, moment):
    shop("INSERT INTO t VALUES (1, 'old')")
    folder = tmp_path / "landed"
    program = [sys.executable, "-m", "tests.postgres.ahead", database, str(folder), moment]
    with subprocess.Popen(program, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        try:
            source = Source(database, folder, rows=10)
            source.offsets = loaded(killed.stdout.readline())
            for number in range(1, 4):
                shop(added(number))
            print("go", file=killed.stdin, flush=True)
            said = [killed.stdout.readline().strip() for _ in range(2)]
        finally:
            killed.kill()
    end = loaded(next(line for line in said if line != "there"))
    assert "there" in said
    # Spark had planned a batch, and not committed it: it is read again, and then what follows.
    plan = source.plan()
    before = source.batch(plan, source.offsets, end)
    assert [row["id"] for row in before] == [*range(10, 20)]
    assert plan.next(source.offsets, 10) == end
    plan._ahead.wait()
    found = source.read()
    assert [row["id"] for row in found] == [*range(10, 40)]
    assert found[:10] == before


def test_what_fails_while_it_lands_ahead_is_said_after_the_batch_before(shop, source):
    shop(added(1), "TRUNCATE t")
    plan = source.plan()
    end = plan.next(source.offsets, 10)
    assert len(source.batch(plan, source.offsets, end)) == 10
    with pytest.raises(SourceReadError, match="emptied by TRUNCATE"):
        plan.next(end, 10)
    # Again, as long as nothing is done about it.
    with pytest.raises(SourceReadError, match="emptied by TRUNCATE"):
        plan.next(end, 10)
