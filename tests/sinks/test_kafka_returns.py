"""What a topic that is written exactly once holds, told by its last note: it cannot go back, only stay."""

import orjson
import pytest

from rs_assets.connectors.commits import Commit, noted, noted_return, refuse_return
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


def mark(batch, generation=1):
    return BatchMark("p1", generation, "out", batch, 1)


def returned(last, kept, begun):
    return noted_return(last, mark(kept[1], kept[0]), mark(kept[1], begun))


def test_a_topic_stays_where_nothing_was_sent_behind_the_batch():
    note = noted(mark(3), 2)
    assert note.why_not(Point(1, 3), 3) is None
    assert note.why_not(Point(1, 7), 3) is None
    assert "batch 3 of generation 1 is in the topic" in note.why_not(Point(1, 2), 3)


def test_a_savepoint_may_come_twice_until_records_were_sent_since():
    note = returned(noted(mark(3), 2), (1, 3), 2)
    note = returned(note, (1, 3), 3)
    assert note.why_not(Point(1, 3), 3) is None
    assert note.why_not(Point(2, 5), -1) is None
    assert "cannot be removed" in note.why_not(Point(3, 2), -1)
    sent = noted(mark(4, generation=3), 1)
    for kept in (Point(1, 3), Point(1, 9), Point(2, 5), Point(3, 3)):
        assert "batch 4 of generation 3 is in the topic" in sent.why_not(kept, -1)
    assert sent.why_not(Point(3, 4), 4) is None


def test_a_topic_that_never_got_a_record_goes_anywhere():
    note = returned(None, (1, 5), 2)
    assert note.why_not(Point(1, 2), -1) is None
    assert note.why_not(Point(2, 1), -1) is None


def test_notes_that_were_lost_are_missed():
    assert "had sent batch 6" in noted(mark(3), 2).why_not(Point(1, 5), 6)


def test_a_later_batch_or_another_topic_is_gone_back_to():
    sent = noted(mark(3), 2)
    with pytest.raises(SinkError, match="batch 3 of generation 1 is in the topic") as refused:
        refuse_return(sent, mark(2), 3, step="out")
    assert refused.value.remedy.startswith("go back to a later batch than that one; or name another topic")
    refuse_return(sent, mark(3), 3, step="out")
    refuse_return(sent, mark(7), 3, step="out")
    # Of another topic, in a new generation.
    refuse_return(None, mark(-1, generation=2), -1, step="out")


def test_a_note_is_read_as_it_was_written_and_so_is_one_of_an_earlier_release():
    note = returned(noted(mark(3), 2), (1, 3), 2)
    assert Commit(**orjson.loads(note.dumped())).why_not(Point(1, 3), 3) is None
    old = Commit(generation=1, batch_id=3, token=1, rows=2)
    assert old.why_not(Point(1, 3), 3) is None
    assert old.why_not(Point(1, 2), 3) is not None


@pytest.mark.parametrize("kept", [(1, 0), (1, 2)])
def test_what_was_sent_is_known_across_returns_without_records(kept):
    note = returned(noted(mark(2), 1), (1, 4), 2)
    assert (note.why_not(Point(*kept), -1) is None) == (kept == (1, 2))
