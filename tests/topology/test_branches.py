"""Streams that part and meet again: which one query can compute, and what is said of the others. No Spark."""

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.errors import TopologyError

TEN = TumblingWindow.of(Time.seconds(10), "ts")


def begin(name="file", pipeline=None):
    pipeline = pipeline or StreamBuilder.data_stream("shop", "job")
    return pipeline.from_file(f"{name}.jsonl", schema="page string, ts timestamp", name=name)


def parted(stream):
    return stream.filter("page > 'a'").union(stream.filter("page < 'a'"), stream, name="meet")


def parted_in_python(stream):
    return stream.filter(lambda row: row["page"] > "a").union(stream.filter("page < 'a'"), name="meet")


def windows(stream, name="w"):
    return stream.window(TEN, name=name).group_by("page").count("n").to_data_stream()


def outputs(stream):
    return [(plan.name, plan.streaming_output) for plan in plan_queries(stream.to_print().build().topology)]


def test_the_trunk_ends_where_branches_part():
    assert outputs(parted(begin().filter("true", name="last"))) == [("file", "last")]
    assert outputs(parted(begin())) == [("file", "file")]
    same = begin()
    assert outputs(same.union(same)) == [("file", "file")]
    assert outputs(parted(windows(begin()).map("page", name="behind"))) == [("w", "behind")]
    assert outputs(parted(begin().shuffle(2, strategy="delta", name="far"))) == [("file", "file"), ("far", "far")]


def test_branches_of_united_sources_may_meet():
    both = StreamBuilder.data_stream("shop", "job")
    united = begin("a", both).union(begin("b", both), name="united")
    assert outputs(parted(united)) == [("a_b", "united")]


def test_branches_that_meet_above_state_are_refused_with_a_way_out():
    with pytest.raises(TopologyError) as refused:
        windows(parted_in_python(begin().filter("true", name="last"))).to_print().build()
    assert refused.value.what.startswith("the branches of step 'last' meet in 'meet', upstream of 'w'")
    assert refused.value.facts["step"] == "meet"
    assert "unite the branches of 'last' alone, before others; or put .shuffle(n, " in refused.value.remedy
    assert outputs(windows(parted(begin().filter("true", name="last")))) == [("w", "w")]
    way_out = windows(parted_in_python(begin().filter("true", name="last")).shuffle(2, strategy="delta", name="far"))
    assert outputs(way_out) == [("file", "last"), ("w", "w")]


def test_branches_that_meet_beside_another_source_are_refused_with_a_way_out():
    both = StreamBuilder.data_stream("shop", "job")
    a, b = begin("a", both), begin("b", both)
    with pytest.raises(TopologyError, match="the branches of step 'a' meet in 'meet', together with another source"):
        parted_in_python(a).union(b).to_print().build()
    both = StreamBuilder.data_stream("shop", "job")
    a, b = begin("a", both), begin("b", both)
    assert outputs(parted(a).union(b)) == [("a_b", "union_1")]
    both = StreamBuilder.data_stream("shop", "job")
    a, b = begin("a", both), begin("b", both)
    way_out = parted_in_python(a).shuffle(2, strategy="delta", name="far").union(b)
    assert outputs(way_out) == [("a", "a"), ("b_far", "union_1")]


def test_windows_that_meet_with_other_rows_are_refused_with_a_way_out():
    source = begin()
    with pytest.raises(TopologyError, match=r"the stateful steps w, .*\n.*put .shuffle"):
        windows(source).select_fields("page").union(source.select_fields("page")).to_print().build()
    source = begin()
    far = windows(source).select_fields("page").shuffle(2, strategy="delta", name="far")
    assert [name for name, _ in outputs(far.union(source.select_fields("page")))] == ["w", "file_far"]


def test_branches_in_a_row_are_as_many_reads_of_the_batch_as_there_are_paths():
    def row_of(stream, number):
        for _ in range(number):
            stream = stream.filter("true").union(stream.filter("true"))
        return stream

    assert outputs(row_of(begin(), 6)) == [("file", "file")]
    with pytest.raises(TopologyError, match="128 paths lead from step 'file' to 'union_7'"):
        row_of(begin(), 40).to_print().build()
    way_out = row_of(row_of(begin(), 6).shuffle(2, strategy="delta", name="far"), 6)
    assert [name for name, _ in outputs(way_out)] == ["file", "far"]
