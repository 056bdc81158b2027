"""Keys of checkpoints and the merge of offsets: the minimum within one checkpoint, the maximum across them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.catalog.offsets import merge
from rs_assets.catalog.offsets.merge import (
    compare_offsets,
    layer,
    main_offset,
    merge_within,
    parse_row_key,
    row_key,
    source_key,
)
from rs_assets.catalog.offsets.messages import (
    BatchFinish,
    CheckPoint,
    CheckPointState,
    NewSplit,
    SystemMessageListener,
)
from rs_assets.errors import CheckpointError, ConfigurationError

unhurried = settings(deadline=None)
normal, either, refuse = CheckPointState.normal, CheckPointState.any, CheckPointState.refuse

numbers = st.integers(-(10**30), 10**30)
layers = st.lists(st.integers(0, 10**9), min_size=1, max_size=4)
objects = st.dictionaries(st.sampled_from(["byte", "line", "file"]), st.integers(0, 99) | st.text(max_size=2))
offsets = st.one_of(
    numbers.map(str),
    layers.map(lambda each: ".".join(map(str, each))),
    objects.map(json.dumps),
    st.text(max_size=4),
    st.text(max_size=4).map(json.dumps),
    st.sampled_from(["", "null", '""', "07", '"7"', "7", "{", '{"a":', "[1,2]", "[]", "true", "-", ".", "7.", "1e5"]),
)
mappings = st.dictionaries(st.sampled_from("abc"), offsets, max_size=3)
parts = st.text(min_size=1, max_size=8).filter(
    lambda text: ";" not in text and "^^^" not in text and not text.endswith("^") and not _surrogates(text)
)


def _surrogates(text: str) -> bool:
    return any(0xD800 <= ord(char) < 0xE000 for char in text)


def test_missing_parts_of_a_key_have_defaults():
    assert source_key(None, "", None, None) == "default_namespace;default_groupName;default_topic;default_name"
    assert source_key("n", "g", "t", "s", "p") == "n;g;t;s;p"
    assert source_key("n", "g", "t", "s", "") == "n;g;t;s"


@unhurried
@given(parts, parts, parts, parts, st.none() | parts, parts)
def test_a_key_reads_back_as_its_parts(namespace, group, topic, name, pipeline, queue):
    read = parse_row_key(row_key(source_key(namespace, group, topic, name, pipeline), queue))
    assert (read.namespace, read.group, read.topic, read.name, read.pipeline, read.queue) == (
        *(namespace, group, topic, name),
        *(pipeline, queue),
    )


@pytest.mark.parametrize("queue", ["^", "^^a", "a;b.log", "a^", "file:///in/x y.jsonl"])
def test_a_queue_may_be_any_file_name(queue):
    key = row_key(source_key("n", "g", "t", "s"), queue)
    assert parse_row_key(key).queue == queue


@pytest.mark.parametrize("part", ["a;b", "a^^^b", "^^^", "a^", "\ud800", 7, b"a"])
@pytest.mark.parametrize("place", range(5))
def test_a_part_that_could_not_be_read_back_is_refused(part, place):
    given_parts = ["n", "g", "t", "s", "p"]
    given_parts[place] = part
    with pytest.raises(ConfigurationError, match="cannot be a part"):
        source_key(*given_parts)


@pytest.mark.parametrize("queue", ["", "a^^^b", "\udcff", None, 1])
def test_a_queue_that_could_not_be_read_back_is_refused(queue):
    with pytest.raises(ConfigurationError, match="cannot be a queue"):
        row_key("n;g;t;s", queue)


@pytest.mark.parametrize("source", ["", "n", "n;g;t", "n;g;t;s;p;x", "n;;t;s", "n;g;t;s^", None])
def test_what_is_no_source_key_is_refused(source):
    with pytest.raises(ConfigurationError):
        row_key(source, "q")


@pytest.mark.parametrize(
    "key", ["", "junk", "n;g;t;s", "n;g;t;s^^^", "^^^q", "n;g;t^^^q", "n;g;t;s^^^q^^^r", ";;;^^^q"]
)
def test_a_stored_key_that_is_damaged_is_named(key):
    with pytest.raises(CheckpointError, match="is not the key of a checkpoint"):
        parse_row_key(key)


@unhurried
@given(layers, layers)
def test_layered_offsets_compare_as_tuples_of_numbers(one, other):
    a, b = (".".join(map(str, each)) for each in (one, other))
    assert compare_offsets(a, b) == (one > other) - (one < other)
    assert compare_offsets(json.dumps(a), b) == compare_offsets(a, b)


@unhurried
@given(numbers, numbers)
def test_numbers_compare_as_numbers_and_empty_is_smaller(one, other):
    assert compare_offsets(str(one), str(other)) == (one > other) - (one < other)
    for empty in (None, "", "null", '""'):
        assert compare_offsets(empty, str(one)) == -1
        assert compare_offsets(str(one), empty) == 1
        assert compare_offsets(empty, None) == 0


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ("9", "10"),
        ('"9"', "10"),
        ("a9", "b"),
        ("a10", "a9"),
        ("A", "a"),
        ('{"byte":9,"line":5}', '{"line":1,"byte":10}'),
        ('{"byte":9,"line":5}', '{"byte": 9, "line": 6}'),
        ('{"logOffset":3}', '{"logOffset":12}'),
        ('{"clicks":{"0":9,"1":4}}', '{"clicks":{"0":9,"1":11}}'),
        ('{"byte":9}', '{"byte":9,"line":0}'),
        ("[9,1]", "[10,0]"),
        ("10", '{"byte":9}'),
        ('{"byte":9}', "a"),
        ("9" * 1000, "9" * 5000),
    ],
)
def test_offsets_of_every_kind_have_an_order(smaller, greater):
    assert compare_offsets(smaller, greater) == -1
    assert compare_offsets(greater, smaller) == 1


def test_only_the_numbers_of_an_object_count():
    assert compare_offsets('{"byte":1,"file":"a","last":true}', '{"byte": 1, "file": "b"}') == 0


def test_deeply_nested_junk_is_text():
    assert compare_offsets("[" * 100_000, "[" * 100_001) == -1


@unhurried
@given(offsets, offsets, offsets)
def test_the_order_is_a_total_one(a, b, c):
    assert compare_offsets(a, b) == -compare_offsets(b, a)
    if compare_offsets(a, b) <= 0 and compare_offsets(b, c) <= 0:
        assert compare_offsets(a, c) <= 0


@unhurried
@given(st.integers(0, 10**12), st.lists(st.integers(0, 9_999_999), max_size=3))
def test_the_main_offset_has_no_layers(main, indices):
    behind = "".join(f".{layer(index)}" for index in indices)
    assert main_offset(f"{main}{behind}") == str(main)
    assert main_offset(json.dumps(f"part-{main}.log{behind}")) == json.dumps(f"part-{main}.log")


@pytest.mark.parametrize("offset", ["", "7", "-1", '{"byte":7.5}', "a.b", "log.20240101", '"a"', "null"])
def test_an_offset_without_layers_stays_as_it_is(offset):
    assert main_offset(offset) == offset


def test_layers_are_of_one_width_and_begin_at_0():
    assert (layer(0), layer(12)) == (merge.LAYER_BASE, 10_000_012)
    with pytest.raises(ConfigurationError, match="cannot be -1"):
        layer(-1)


@unhurried
@given(st.lists(st.dictionaries(st.sampled_from("abc"), numbers), min_size=1))
def test_within_a_checkpoint_the_minimum_of_a_queue_counts(replies):
    result = merge_within([normal({q: str(n) for q, n in each.items()}) for each in replies], proposed={"x": "1"})
    assert result == {q: str(min(e[q] for e in replies if q in e)) for q in set().union(*replies)}


@unhurried
@given(st.lists(mappings.map(normal) | st.just(either()), max_size=4), mappings)
def test_the_order_of_replies_does_not_matter_and_any_does_not_count(replies, proposed):
    result = merge_within(replies, proposed=proposed)
    assert merge_within(replies[::-1], proposed=proposed) == result
    assert merge_within([*replies, either()], proposed=proposed) == result
    assert merge_within([*replies, refuse("no room")], proposed=proposed) is None


def test_if_nobody_names_offsets_the_proposed_ones_are_taken():
    proposed = {"a": "1"}
    assert merge_within([], proposed=proposed) == proposed
    assert merge_within([either(), either()], proposed=proposed) == proposed
    assert merge_within([normal({}), either()], proposed=proposed) == {}


def test_messages_say_their_kind_and_keep_what_they_were_given():
    given_offsets = {"a": "1"}
    message = CheckPoint(source="read", query="totals", batch_id=3, offsets=given_offsets)
    given_offsets["a"] = "2"
    assert (message.kind, message.offsets) == ("CheckPoint", {"a": "1"})
    assert NewSplit(source="read", query="totals", batch_id=3, split="a").offset == "null"
    assert BatchFinish(source="read", query="totals", batch_id=3).kind == "BatchFinish"
    with pytest.raises(AttributeError):
        message.batch_id = 4


def test_a_listener_is_known_by_its_method():
    class Sink:
        def on_system_message(self, message):
            return either()

    assert isinstance(Sink(), SystemMessageListener)
    assert not isinstance(object(), SystemMessageListener)
