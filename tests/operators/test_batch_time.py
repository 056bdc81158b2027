"""The code of a batch is that of the batch before: Spark would compile it, and Java warm it up, each time."""

from datetime import timedelta

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import RsError
from rs_assets.testing import PipelineDriver
from tests.operators.model import at

WINDOWS = {
    "event time": TumblingWindow.of(Time.seconds(10), "ts"),
    "arrival": TumblingWindow.of(Time.milliseconds(1)),
}


def compiled(driver) -> int:
    """How often Spark has compiled generated code in this process."""
    return driver.call(
        lambda spark: spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount()
    )


@pytest.mark.canary
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_batches_after_the_first_ones_compile_only_the_watermark_of_spark(driver, window):
    """Without a delay the windows of a batch fire in the next one, however soon it comes."""
    stream = StreamBuilder.data_stream("shop", "warm").from_file("in.jsonl", schema="k string, ts timestamp")
    counted = stream.window(window).group_by("k").count("n").water_mark(Time.seconds(0))
    with PipelineDriver(counted.to_data_stream().to_print().build(), spark=driver) as running:

        def batch(second: int) -> None:
            running.push([{"k": "a", "ts": at(second)}, {"k": "b", "ts": at(second)}])
            running.step()

        for second in (1, 12, 25):
            batch(second)
        before = compiled(driver)
        for second in (36, 48):
            batch(second)
        # Spark compares the rows of state with the watermark by code that has it as a constant.
        assert compiled(driver) - before <= 2
        assert sum(row["n"] for row in running.take()) >= 6


def test_an_event_time_may_be_ahead_of_the_clock_of_its_batch_by_the_limit_and_no_more(driver):
    job = StreamBuilder.data_stream("shop", "ahead").from_file("in.jsonl", schema="k string, ts timestamp")
    windows = job.window(TumblingWindow.of(Time.days(1), "ts")).event_time(max_ahead=timedelta(days=3))
    pipeline = windows.group_by("k").count("n").to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver) as running:
        now = driver.call(lambda spark: spark.sql("SELECT current_timestamp()").first()[0])
        running.push([{"k": "in", "ts": now + timedelta(days=2)}])
        running.step()
        assert running.report().rows_in == 1
        running.push([{"k": "out", "ts": now + timedelta(days=4)}])
        with pytest.raises(RsError, match="too far ahead"):
            running.step()
