"""Which field has the time of a record that is sent, as `describe` says it."""

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow, pipeline_from_sql
from rs_assets.errors import TopologyError

SCHEMA = "page string, ts timestamp, ms bigint"
WITHIN = {"within": Time.minutes(5), "time_field": "ts"}


def read(job="times", **options):
    stream = StreamBuilder.data_stream("test", job)
    return stream.from_kafka("host:9092", "in", schema=SCHEMA, metadata=["timestamp"], **options)


def windowed(stream):
    return stream.window(TumblingWindow.of(Time.minutes(5), "ts")).group_by("page").count("n").to_data_stream()


def time_of(stream, **how):
    topology = stream.to_kafka("host:9092", "out", name="out", **how).build().topology
    return topology["out"].detail().partition("time: ")[2]


@pytest.mark.parametrize(
    ("stream", "time"),
    [
        (read(), "kafka_timestamp, else the clock"),
        (read().filter("ms > 1").map("page", "`kafka_timestamp` AS `read`"), "read, else the clock"),
        (read().map("page", "unix_millis(kafka_timestamp) AS t"), "the clock"),
        (read().select_fields("page"), "the clock"),
        (read().distinct("page", **WITHIN), "ts, else kafka_timestamp, else the clock"),
        (windowed(read()), "end_time, else the clock"),
        (windowed(read()).shuffle(2, strategy="delta").filter("n > 1"), "end_time, else the clock"),
        (windowed(read()).map("page", "CAST(end_time AS timestamp_ntz) AS closed"), "closed, else the clock"),
        (windowed(read().distinct("page", **WITHIN)).select_fields("page", "n"), "the clock"),
    ],
)
def test_times_follow_from_the_steps_before_the_sink(stream, time):
    assert time_of(stream) == time


def test_a_field_that_is_named_counts_and_must_be_a_time():
    assert time_of(windowed(read()), timestamp="start_time") == "start_time, else the clock"
    with pytest.raises(TopologyError, match=r"(?s)'ms' is bigint.*timestamp_millis\(ms\)"):
        time_of(read(), timestamp="ms")
    with pytest.raises(TopologyError, match=r"(?s)'page' is string.*cast\(page AS timestamp\)"):
        time_of(read(), timestamp="page")
    made = read().with_fields(ms="timestamp_millis(ms)", page="cast(page AS timestamp)")
    assert [time_of(made, timestamp=name) for name in ("ms", "page")] == ["ms, else the clock", "page, else the clock"]
    with pytest.raises(TopologyError, match="nope"):
        time_of(read(), timestamp="nope")


SQL = """
CREATE TABLE clicks (page STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'host:9092');
CREATE TABLE totals (page STRING, closed TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'totals', 'properties.bootstrap.servers' = 'host:9092');
INSERT INTO totals SELECT page, window_end, count(*)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY page, window_start, window_end;
"""


def test_sql_has_the_same_times_under_the_names_of_the_columns():
    pipeline = pipeline_from_sql(SQL, namespace="test", job="totals")
    assert "time: closed, else the clock" in pipeline.describe()
