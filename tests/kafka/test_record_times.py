"""Records that are sent have the time of their rows: of the field that is named, else by the steps before the sink."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import orjson
import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink import exactly_once
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import SinkError
from rs_assets.testing import KafkaRecord
from tests.kafka.test_sink import mark

SCHEMA = "page string, ts timestamp, h map<string, string>"
READ_MS = 1_700_000_000_000
TIMES = ["2026-01-01T10:00:01Z", "2026-01-01T10:00:02.345678Z", "2026-01-01T10:10:00Z"]
OLD = "1960-01-01T00:00:00Z"


def millis(text):
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def of_clock(record, since_ms):
    return since_ms <= record.timestamp_ms <= time.time() * 1000


def topics(broker, topic):
    """A topic for each of the sinks; the broker gives the records of the last one their times."""
    broker.create_topic(topic)
    names = {part: f"{topic}-{part}" for part in ("record", "clock", "named", "window", "open", "append")}
    for part, name in names.items():
        broker.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"} if part == "append" else None)
    return names


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_records_with_and_without_a_named_field_have_the_times_of_their_rows(broker, topic, options, delivery):
    names, since = topics(broker, topic), int(time.time() * 1000)
    rows = [{"page": f"/{n}", "ts": ts, "h": {"a": "1"}} for n, ts in enumerate([*TIMES, None, OLD])]
    broker.produce(topic, [KafkaRecord(value=orjson.dumps(row), timestamp_ms=READ_MS) for row in rows])
    servers = broker.bootstrap_servers
    read = StreamBuilder.data_stream("test", "times").from_kafka(servers, topic, schema=SCHEMA, metadata=["timestamp"])
    dated = read.filter("year(ts) > 2000")
    closed = dated.window(TumblingWindow.of(Time.minutes(5), "ts"), name="closed").count("n").to_data_stream()
    open_ = dated.window(TumblingWindow.of(Time.days(36500), "ts"), emit="on_window_update", name="still_open")
    closed.to_kafka(servers, names["window"], delivery=delivery)
    open_.count("n").to_data_stream().to_kafka(servers, names["open"], delivery=delivery)
    read.to_kafka(servers, names["named"], timestamp="ts", headers="h", delivery=delivery)
    read.to_kafka(servers, names["append"], timestamp="ts", delivery=delivery)
    read.select_fields("page").to_kafka(servers, names["clock"], delivery=delivery)
    read.to_kafka(servers, names["record"], delivery=delivery).build().run(options)

    found = {part: broker.read(name) for part, name in names.items()}
    assert [record.timestamp_ms for record in found["record"]] == [READ_MS] * 5
    assert len(found["clock"]) == len(found["append"]) == 5
    assert all(of_clock(record, since) for record in (*found["clock"], *found["append"]))
    assert [record.timestamp_ms for record in found["named"][:3]] == [millis(ts) for ts in TIMES]
    assert all(of_clock(record, since) for record in found["named"][3:])
    assert {record.headers for record in found["named"]} == {(("a", b"1"),)}
    ends = [(record.timestamp_ms, millis(orjson.loads(record.value)["end_time"])) for record in found["window"]]
    assert ends[0][0] == millis("2026-01-01T10:05:00Z")
    assert all(at == end for at, end in ends)
    assert found["open"]
    assert all(of_clock(record, since) for record in found["open"])


@pytest.mark.parametrize("by_tasks", [True, False], ids=["by tasks", "by the driver"])
def test_a_named_time_that_the_topic_refuses_ends_the_batch_with_the_settings(
    broker, topic, driver, monkeypatch, by_tasks
):
    monkeypatch.setattr(exactly_once, "tasks_share_producers", lambda _: by_tasks)
    broker.create_topic(topic, 1, {"message.timestamp.after.max.ms": "60000"})
    shape = RecordShape(topic=topic, value="v", timestamp="ts")
    sink = TransactionalWriter(name="sink", cluster=KafkaCluster.of(broker.bootstrap_servers), shape=shape)
    past, future = datetime(2026, 1, 1, tzinfo=UTC), datetime(2126, 1, 1, tzinfo=UTC)

    def send(batch_id, *times):
        rows = [("x", time) for time in times]
        frame = driver.call(lambda session: session.createDataFrame(rows, "v string, ts timestamp").coalesce(1))
        driver.call(lambda _: sink.stage(frame, mark(batch_id, token=1, pipeline=topic)).commit())

    send(0, past, None)
    with pytest.raises(SinkError, match=r"message\.timestamp\.after\.max\.ms"):
        send(1, future)
    sink.close()
    first, second = broker.read(topic)
    assert first.timestamp_ms == past.timestamp() * 1000
    assert of_clock(second, past.timestamp() * 1000 + 1)
