"""A query that is dropped and started again goes on where it was."""

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyChangedError
from rs_assets.testing import PipelineDriver
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
