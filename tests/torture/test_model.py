"""The plain model of the input: windows close by the watermark, late records are left out."""

import pytest

from tests.torture.histories import planned
from tests.torture.model import Input, Windows, all_read, difference
from tests.torture.site import Site


def test_windows_close_behind_the_delay_and_leave_late_records_out():
    windows = Windows().read(frozenset(range(30)))
    assert windows.watermark == 14
    assert [row[:3] for row in windows.closed] == [("p0", 0, 4), ("p1", 0, 3), ("p2", 0, 3)]
    assert windows.read(frozenset({31, 60})).watermark == 45
    later = Windows(windows.taken, 45).read(frozenset({33, 38, 41}))
    assert later.taken - windows.taken == {41}


def test_at_the_end_every_record_is_counted_once():
    given = Input()
    given.add("a", given.following(17))
    given.add("b", given.following(8))
    held = all_read(given.of("ab"))
    assert [row[0] for row in held["copy"]] == list(range(25))
    assert sum(row[2] for row in held["windows"]) == 25
    assert given.letters("ab") == [("{no record 17",), ("{no record 25",)]


@pytest.mark.parametrize("tail", [False, True])
def test_records_that_could_not_be_written_are_not_known(tmp_path, tail):
    site = Site(tmp_path / "gone", driver=None, tail=tail)
    with pytest.raises(FileNotFoundError):
        site.grow("a", 7)
    assert site.input == Input()
    site.root.mkdir()
    site.make()
    site.grow("a", 7)
    assert site.input.of("a") == frozenset(range(7))
    assert site.input.letters("a") == [("{no record 7",)]


def test_what_is_lost_and_what_is_doubled_is_told():
    told = difference({"copy": [(1,), (2,), (2,)]}, {"copy": [(1,), (2,), (3,)]})
    assert told == "copy lacks 1 [(3,)] and has too much 1 [(2,)]"


def test_a_seed_gives_the_same_steps_for_ever():
    assert planned(7, 20) == planned(7, 20)
    assert [str(step) for step in planned(7, 3)] == [str(step) for step in planned(7, 20)[:3]]
    assert {step.action for step in planned(3, 40, ["grow"])}.isdisjoint({"grow"})
