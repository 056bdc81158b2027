"""The system messages of a batch: which ones, and in what order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.catalog.offsets.messages import BatchFinish, CheckPoint, NewSplit, RemoveSplit
from rs_assets.catalog.offsets.splits import SplitTracker

unhurried = settings(deadline=None)
COMMON = {"source": "read", "query": "totals"}
histories = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 99).map(str)), max_size=8)


def tracker(**known: str) -> SplitTracker:
    return SplitTracker(**COMMON, known=known)


def test_a_first_batch_announces_its_splits_before_their_rows():
    after, messages = tracker().advance(0, {"b": "3", "a": "7"}, starts={"a": "5"})
    assert messages.before == (
        NewSplit(**COMMON, batch_id=0, split="b", offset="null"),
        NewSplit(**COMMON, batch_id=0, split="a", offset="5"),
    )
    assert messages.after == (CheckPoint(**COMMON, batch_id=0, offsets={"b": "3", "a": "7"}),)
    assert after.known == {"a": "7", "b": "3"}


def test_known_splits_are_only_checkpointed():
    _, messages = tracker(a="7").advance(1, {"a": "9"})
    assert messages.all == (CheckPoint(**COMMON, batch_id=1, offsets={"a": "9"}),)


def test_a_split_that_went_away_is_removed_with_its_last_offset():
    after, messages = tracker(a="7", b="3").advance(4, {"b": "5", "c": "1"})
    assert messages.before == (NewSplit(**COMMON, batch_id=4, split="c"),)
    assert messages.after == (
        RemoveSplit(**COMMON, batch_id=4, split="a"),
        CheckPoint(**COMMON, batch_id=4, offsets={"a": "7"}),
        CheckPoint(**COMMON, batch_id=4, offsets={"b": "5", "c": "1"}),
    )
    _, back = after.advance(5, {"a": "0", "b": "5", "c": "1"})
    assert [message.split for message in back.before] == ["a"]


def test_a_bounded_source_ends_with_a_checkpoint_and_batch_finish():
    _, messages = tracker(a="7").advance(2, {"a": "9"}, is_last=True)
    assert messages.after == (
        CheckPoint(**COMMON, batch_id=2, offsets={"a": "9"}),
        BatchFinish(**COMMON, batch_id=2),
    )


def test_a_source_without_splits_is_checkpointed_all_the_same():
    after, messages = tracker().advance(0, {}, is_last=True)
    assert [message.kind for message in messages.all] == ["CheckPoint", "BatchFinish"]
    assert after == tracker()


def test_a_tracker_does_not_share_its_mapping():
    offsets = {"a": "1"}
    after, messages = tracker().advance(0, offsets)
    offsets["a"] = "2"
    messages.after[0].offsets["a"] = "3"
    assert after.known == {"a": "1"}


@unhurried
@given(histories)
def test_a_split_is_known_from_its_new_split_to_its_remove_split(history):
    current, alive = tracker(), set()
    for batch, offsets in enumerate(history):
        current, messages = current.advance(batch, offsets)
        for message in messages.before:
            assert message.split not in alive
            alive.add(message.split)
        for message, following in pairwise([*messages.after, None]):
            if isinstance(message, RemoveSplit):
                alive.remove(message.split)
                assert list(following.offsets) == [message.split]
        assert alive == offsets.keys()
        assert messages.after[-1].offsets == offsets
        assert {message.batch_id for message in messages.all} == {batch}


@unhurried
@given(histories, st.dictionaries(st.sampled_from("abcd"), st.just("1")))
def test_a_tracker_made_from_stored_offsets_goes_on_like_the_first(history, offsets):
    current = tracker()
    for batch, each in enumerate(history):
        current, _ = current.advance(batch, each)
    stored = history[-1] if history else {}
    assert tracker(**stored).advance(9, offsets) == current.advance(9, offsets)
