"""A query that is dropped and started again goes on where it was."""

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyChangedError
from rs_assets.runtime.identity import _refuse_changes
from rs_assets.testing import PipelineDriver
from rs_assets.topology.shape import shape_of
from tests.operators.model import at

SCHEMA = "key string, v bigint, ts timestamp"


def pipeline(aggregate="sum", mark=5):
    begin = StreamBuilder.data_stream("test", "restart").from_file("in.jsonl", schema=SCHEMA)
    window = begin.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key")
    return getattr(window, aggregate)("v", "x").water_mark(Time.seconds(mark)).to_data_stream().to_print().build()


def test_should_keep_open_windows_over_restarts(driver):
    with PipelineDriver(pipeline(), spark=driver) as running:
        for n in range(3):
            running.push([{"key": "a", "v": n + 1, "ts": at(n)}])
            running.step()
            running.restart()
        running.finish()
        assert [row["x"] for row in running.take()] == [6]


@pytest.mark.parametrize("changed", [pipeline("max"), pipeline(mark=6)])
def test_should_refuse_state_of_another_topology(driver, tmp_path, changed):
    with PipelineDriver(pipeline(), spark=driver, home=tmp_path) as running:
        running.push([{"key": "a", "v": 1, "ts": at(1)}])
        running.step()
    with pytest.raises(TopologyChangedError, match=r"(?s)- window_aggregate.*\+ window_aggregate"):
        PipelineDriver(changed, spark=driver, home=tmp_path).__enter__()


def two_outputs(aggregate):
    begin = StreamBuilder.data_stream("test", "shared").from_file("in.jsonl", schema=SCHEMA)
    tens = begin.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("key")
    tens = getattr(tens, aggregate)("v", "x").to_data_stream()
    tens.to_print(name="all_tens")
    minutes = tens.window(TumblingWindow.of(Time.minutes(1), "start_time"), name="minutes").sum("x")
    return minutes.to_data_stream().to_print(name="all_minutes").build()


def test_should_show_the_difference_of_a_step_once_that_two_queries_share():
    before, now = two_outputs("sum").topology, two_outputs("max").topology
    shapes = [(shape_of(before, step), shape_of(now, step)) for step in ("tens", "minutes")]
    with pytest.raises(TopologyChangedError) as refused:
        _refuse_changes(now, shapes, (), {}, python="", committed=lambda: True)
    assert str(refused.value).count("- window_aggregate tens") == 1
    assert str(refused.value).count("+ window_aggregate tens") == 1
