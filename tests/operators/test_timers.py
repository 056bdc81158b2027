"""Steps with timers, at the watermark one millisecond before what they wait for."""

from datetime import timedelta

import pytest

from rs_assets import CountWindow, SlidingWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.testing import PipelineDriver
from tests.operators.model import at

WINDOWS = {
    "tumbling": lambda stream: (
        stream.window(TumblingWindow.of(Time.seconds(10), "ts")).count("n").emit_before(Time.seconds(3))
    ),
    "sliding": lambda stream: stream.window(SlidingWindow.of(Time.seconds(3), "ts")).count("n"),
    "count": lambda stream: stream.window(CountWindow.of(1, "ts")).count("n"),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_should_fire_behind_a_watermark_a_millisecond_before(driver, kind):
    stream = StreamBuilder.data_stream("test", f"edge_{kind}").from_file("in.jsonl", schema="n bigint, ts timestamp")
    stream = WINDOWS[kind](stream).to_data_stream()
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        # The window ends, or the row is counted, within the millisecond behind the watermark.
        offset = timedelta(milliseconds=999, microseconds=500 * (kind != "tumbling"))
        running.push([{"n": 1, "ts": at(9) + offset}])
        running.step()
        running.take()
        running.finish()
        rows, report = running.take(), running.report()
    assert ([(row["n"], row.get("final", True)) for row in rows], report.rows_open) == ([(1, True)], 0)
