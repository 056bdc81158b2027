"""Tumbling windows against the reference model."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, counted, sliced, windows_of

SCHEMA = "key string, ts timestamp"
ROWS = [{"key": f"k{n % 3}", "ts": at(n * 4)} for n in range(20)]


def test_should_fire_each_window_once_when_the_watermark_passes_its_end(source, driver):
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("n")
    pipeline = stream.water_mark(Time.seconds(5)).to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver) as running:
        running.push([{"key": "a", "ts": at(1)}, {"key": "a", "ts": at(9)}, {"key": "b", "ts": at(14)}])
        running.step()
        assert running.take() == []
        running.push([{"key": "b", "ts": at(15)}])
        running.step()
        assert running.take() == [{"key": "a", "n": 2, "start_time": at(0), "end_time": at(10), "fire_time": at(15)}]
        running.finish()
        assert windows_of(running.take()) == [("b", at(10), at(20), 2)]
        assert running.report().rows_open == 0


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=st.permutations(range(len(ROWS))), cuts=st.sets(st.integers(1, len(ROWS) - 1), max_size=3))
def test_should_not_depend_on_disorder_within_the_water_mark_or_on_cuts(driver, order, cuts):
    begin = StreamBuilder.data_stream("test", "cuts").from_file("in.jsonl", schema=SCHEMA)
    stream = begin.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("n")
    pipeline = stream.water_mark(Time.seconds(80)).to_data_stream().to_print().build()
    rows = [ROWS[n] for n in order]
    edges = [0, *sorted(cuts), len(rows)]
    with PipelineDriver(pipeline, spark=driver) as running:
        for first, last in pairwise(edges):
            running.push(rows[first:last])
            running.step()
        running.finish()
        assert windows_of(running.take()) == counted(sliced(ROWS, size=10, slide=10))


def test_should_group_the_whole_stream_without_fields_and_null_as_a_value(source, drive):
    window = TumblingWindow.of(Time.seconds(10), "ts")
    rows = [{"key": None, "ts": at(1)}, {"key": None, "ts": at(2)}, {"key": "a", "ts": at(3)}]
    whole = drive(source(SCHEMA).window(window).count("n").to_data_stream(), rows)
    assert [row["n"] for row in whole] == [3]
    grouped = drive(source(SCHEMA).window(window).group_by("key").count("n").to_data_stream(), rows)
    assert sorted(((row["key"], row["n"]) for row in grouped), key=str) == [("a", 1), (None, 2)]


@pytest.mark.parametrize("size", [timedelta(0), -Time.seconds(1), 10, "10 s", timedelta(microseconds=1500)])
def test_should_refuse_a_size_that_is_none(size):
    with pytest.raises(TopologyError, match="the size of a window"):
        TumblingWindow.of(size, "ts")


def test_should_refuse_a_window_that_computes_nothing_or_one_name_twice(source):
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"))
    with pytest.raises(TopologyError, match="aggregates nothing"):
        stream.group_by("key").to_data_stream()
    with pytest.raises(TopologyError, match="two columns called key"):
        stream.group_by("key").count("key").to_data_stream()
    with pytest.raises(TopologyError, match="two columns called end_time"):
        stream.count("end_time").to_data_stream()


def test_should_refuse_what_is_no_window(source):
    with pytest.raises(TopologyError, match="takes a window"):
        source(SCHEMA).window(Time.seconds(10))


def test_should_ask_for_names_when_there_are_two_windows(source):
    stream = source(SCHEMA)
    stream.window(TumblingWindow.of(Time.seconds(10), "ts")).count().to_data_stream().to_print(name="a")
    with pytest.raises(TopologyError, match="two steps called 'window'"):
        stream.window(SessionWindow.of(Time.seconds(10), "ts")).count().to_data_stream()
